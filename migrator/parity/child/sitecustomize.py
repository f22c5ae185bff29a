"""What Python loads at its start in the processes of a recorded run; it stands first on PYTHONPATH."""

import atexit
import importlib.machinery
import importlib.util
import os
import sys
import time

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load_shadowed() -> None:
    """Load the ``sitecustomize`` that would have been loaded without this one."""
    others = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


class _Launchers:
    """Finds pyspark's launchers among the stand-ins for them, whether pyspark is installed or not."""

    folder = os.path.join(os.path.dirname(_HERE), "stand_in", "pyspark_launcher")

    def find_spec(self, name, path=None, target=None):
        """Find a module that stands in for one of pyspark's."""
        place = os.path.join(self.folder, *name.split(".")) + ".py"
        return importlib.util.spec_from_file_location(name, place) if os.path.isfile(place) else None


def _redirect(tree: str, copy: str) -> None:
    """Import from ``copy`` what PYTHONPATH or an editable installation would import from ``tree``."""

    def moved(path: str) -> str:
        place = os.path.relpath(os.path.realpath(path), tree)
        return path if place.split(os.sep)[0] == os.pardir else os.path.normpath(os.path.join(copy, place))

    sys.path[:] = [moved(path) if path else path for path in sys.path]
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            mapping = getattr(module, "MAPPING", {})
            mapping.update({package: moved(path) for package, path in mapping.items()})


def _settle_keras() -> None:
    """Where Keras 2 is what is installed, do not ask TensorFlow for the package that has it beside Keras 3."""
    import importlib.metadata

    try:
        is_old = importlib.metadata.version("keras").startswith("2.")
    except importlib.metadata.PackageNotFoundError:
        return
    if is_old and importlib.util.find_spec("tf_keras") is None:
        del os.environ["TF_USE_LEGACY_KERAS"]


def _let_go() -> None:
    """Wait until the threads of a process group have let go of their tensors.

    One that drops the last reference to a tensor while Python ends must take its lock, cannot, and takes the process
    down: "terminate called without an active exception".
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        time.sleep(0.1)


def _record() -> None:
    path = os.path.join(os.path.dirname(_HERE), "recorder.py")
    spec = importlib.util.spec_from_file_location("hvd_migrate_recorder", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["hvd_migrate_recorder"] = module
    spec.loader.exec_module(module)
    module.start_from_environment()


atexit.register(_let_go)
_load_shadowed()
if _Launchers.folder in sys.path:
    sys.meta_path.insert(0, _Launchers())
if os.environ.get("HVD_MIGRATE_TREE"):
    _redirect(os.environ["HVD_MIGRATE_TREE"], os.environ["HVD_MIGRATE_COPY"])
if "TF_USE_LEGACY_KERAS" in os.environ:
    _settle_keras()
if any(os.environ.get("HVD_MIGRATE_" + name) for name in ("TRACE", "SEED", "DETERMINISTIC", "BACKEND")):
    try:
        _record()
    except Exception as error:
        print("hvd-migrate recorder: not started:", type(error).__name__, error, file=sys.stderr)

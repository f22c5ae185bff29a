"""What the recorder does in programs that train with TensorFlow; ``recorder.py`` loads it from its own folder.

A value is there when a graph runs, not when it is traced. So what is to be recorded is given to a function of Python
that becomes a node of the graph: after the model's call, its inputs; after ``GradientTape.gradient``, the loss; around
the optimizer's update, gradients and parameters. XLA has no such nodes, and compiles nothing while it is recorded.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Sequence

import numpy

if TYPE_CHECKING:
    from migrator.parity import recorder as core
else:
    import hvd_migrate_recorder as core

Array = Any
Tensor = Any
Variable = Any
Entry = List[Any]
Event = Dict[str, Any]
Run = Callable[..., Any]

# The functions that hvd-migrate writes into programs, by name. The reduction ``op`` is that of the call.
HELPERS = {
    "all_gather_cat": core.Helper("allgather"),
    "all_gather_object": core.Helper("object"),
    "all_reduce": core.Helper("allreduce", "op"),
    "all_reduce_mean": core.Helper("allreduce", "average"),
    "all_reduce_sum": core.Helper("allreduce", "sum"),
    "all_to_all": core.Helper("alltoall"),
    "broadcast": core.Helper("broadcast"),
    "broadcast_object": core.Helper("object"),
    "broadcast_variables": core.Helper("broadcast", "", "state"),
    "gradients_over_workers": core.Helper("allreduce", "op", "gradients"),
    "reduce_over_workers": core.Helper("allreduce", "op"),
}
# A program may have a function of the same name, so they are known by their docstrings.
DOCSTRINGS = {
    "Return the tensors of all workers one behind another; their first dimensions may differ.": "all_gather_cat",
    "Return the objects that ``value`` is on the workers, in their order.": "all_gather_object",
    "Return ``tensor`` reduced over all workers by ``reduce``, which takes an axis; its gradient is so, too.": (
        "all_reduce"
    ),
    "Return the mean of ``tensor`` over all workers; integers truncate toward zero.": "all_reduce_mean",
    "Return the mean of ``tensor`` over all workers, sent as ``compression``; integers truncate toward zero.": (
        "all_reduce_mean"
    ),
    "Return the sum of ``tensor`` over all workers.": "all_reduce_sum",
    "Return the sum of ``tensor`` over all workers, sent as ``compression``.": "all_reduce_sum",
    "Send each worker its rows of ``tensor``; return those received, and how many came from each worker.": "all_to_all",
    "Return the value that ``tensor`` has on worker ``root_rank``.": "broadcast",
    "Return the object that ``value`` is on worker ``root_rank``.": "broadcast_object",
    "Give ``variables`` the values that they have on worker ``root_rank``.": "broadcast_variables",
    "Return the mean of each gradient over all workers; None stays None.": "gradients_over_workers",
    "Return the mean of each gradient over all workers, sent as ``compression``; None stays None.": (
        "gradients_over_workers"
    ),
    "Return the sum of each gradient over all workers; None stays None.": "gradients_over_workers",
    "Return the sum of each gradient over all workers, sent as ``compression``; None stays None.": (
        "gradients_over_workers"
    ),
    'Return the sum, "SUM", or the mean, "MEAN", of each tensor over all workers.': "reduce_over_workers",
    'Return the sum, "SUM", or the mean, "MEAN", of each tensor over all workers, sent as ``compression``.': (
        "reduce_over_workers"
    ),
}
# Modules of Keras 2 and 3, by their names in old and new releases, and the classes in them that are hooked.
OPTIMIZERS = ("Optimizer", "_BaseOptimizer", "OptimizerV2", "BaseOptimizer", "TFOptimizer")
KERAS = {
    "optimizer_v2.optimizer_v2": OPTIMIZERS,
    "optimizers.optimizer_v2.optimizer_v2": OPTIMIZERS,
    "optimizers.optimizer_experimental.optimizer": OPTIMIZERS,
    "optimizers.legacy.optimizer_v2": OPTIMIZERS,
    "optimizers.base_optimizer": OPTIMIZERS,
    "optimizers.optimizer": OPTIMIZERS,
    "backend.tensorflow.optimizer": OPTIMIZERS,
    "engine.base_layer": ("Layer",),
    "engine.training": ("Model",),
    "layers.layer": ("Layer",),
    "models.model": ("Model",),
}
LARGEST_DENSE = 2**28
OWN = ("tensorflow", "threading", "hvd_migrate_recorder_tensorflow")
PACKAGES = ("keras", "keras.src", "tf_keras.src", "tensorflow.python.keras")
# The methods of optimizers that are given the gradients as they are applied, and where they stand among the arguments.
APPLIES: Mapping[str, Callable[..., Sequence[tuple[Tensor, Variable]]]] = {
    "_internal_apply_gradients": lambda pairs: pairs,
    "_distributed_apply": lambda distribution, pairs, *_, **__: pairs,
    "_backend_update_step": lambda gradients, variables, *_: list(zip(gradients, variables)),
}


# Fingerprints of arrays


def fingerprint(array: Array) -> Entry:
    """Return ``[digest, norm, element, ...]`` of an array, as of a tensor of PyTorch."""
    return [digest(array), *_measures(array)]


def sparse_fingerprint(values: Array, indices: Array, shape: Sequence[int]) -> Entry:
    """The same of rows of a tensor, as if it had all of them; where that is too large, of those rows alone."""
    rows, places = numpy.unique(indices, return_inverse=True)
    summed = numpy.zeros((len(rows), *values.shape[1:]), values.dtype)
    numpy.add.at(summed, places.reshape(-1), values)
    if numpy.prod(shape) * values.dtype.itemsize > LARGEST_DENSE:
        return [core._digest(digest(indices).encode(), digest(values).encode()), *_measures(summed)]
    dense = numpy.zeros(shape, values.dtype)
    dense[rows] = summed
    return fingerprint(dense)


def digest(array: Array) -> str:
    """A digest that depends on an array's dtype, shape and bytes only."""
    array = numpy.ascontiguousarray(array)
    header = f"{array.dtype.name} {list(array.shape)} ".encode()
    if array.dtype == object:
        return core._digest(header, *(repr(each).encode() for each in array.reshape(-1)))
    return core._digest(header, _content(array.reshape(-1).view(numpy.uint8)) if array.size else b"")


def _content(raw: Array) -> bytes:
    """The bytes of a small array, sums of those of a large one; see the other part of the recorder."""
    if raw.size <= core.SMALL:
        return bytes(raw.tobytes())
    whole = raw.size // 8
    words = raw[: whole * 8].view(numpy.uint64)
    rows = whole // core.WIDTH
    total = words[: rows * core.WIDTH].reshape(rows, core.WIDTH).sum(0, dtype=numpy.uint64)
    total[: whole - rows * core.WIDTH] += words[rows * core.WIDTH :]
    return bytes(total.tobytes() + raw[whole * 8 :].tobytes())


def _measures(array: Array) -> Entry:
    flat = numpy.asarray(array).reshape(-1)
    if flat.dtype == object or not flat.size:
        return ["nan" if flat.size else 0.0]
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    with numpy.errstate(all="ignore"):
        norm = numpy.linalg.norm(flat.astype(numpy.float64))
    return [core._number(norm), *map(core._number, flat[:: max(1, (flat.size - 1) // 3)][:4])]


# What was hooked


class Applied:
    """An optimizer that applies gradients, and what its update under way has come to."""

    def __init__(self, optimizer: Any, variables: Sequence[Variable]) -> None:
        self.known = core.KnownOptimizer(optimizer, ())
        self.variables = list(variables)
        self.names = [_name(variable) for variable in variables]
        self.places = {id(each): place for place, variable in enumerate(variables) for each in _same(variable)}
        self.rates: list[Any] = []
        self.start: list[Entry] = []
        self.gradients: list[Entry | None] | None = None

    def described(self) -> list[Entry]:
        """Its parameters as a trace has them."""
        found: list[Entry] = []
        for place, (name, variable) in enumerate(zip(self.names, self.variables)):
            unique = f"{name} (0.{place})" if name in self.names[:place] else name
            found.append([unique, list(variable.shape), _dtype(variable)])
        return found


class Updating:
    """An update as it is being traced, or made: whether another optimizer makes it, and who gives its gradients."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.applied: Applied | None = None
        self.has_inner = False
        self.has_gradients = False


class _Inside(threading.local):
    """What this thread is in the middle of."""

    call = False
    gradient = False
    collective = False
    save = False

    def __init__(self) -> None:
        self.updates: list[Updating] = []

    @contextlib.contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """Be in the middle of something."""
        setattr(self, name, True)
        try:
            yield
        finally:
            setattr(self, name, False)


def _same(variable: Variable) -> list[Variable]:
    """A variable, and TensorFlow's own in one of Keras 3."""
    value = getattr(variable, "value", None)
    return [variable] if value is None or callable(value) else [variable, value]


def _name(variable: Variable) -> str:
    return str(getattr(variable, "path", None) or variable.name).split(":")[0]


def _leaf(variable: Variable) -> str:
    return _name(variable).rpartition("/")[2]


def _dtype(tensor: Any) -> str:
    return str(getattr(tensor.dtype, "name", tensor.dtype))


class TensorFlow(core.Framework):
    """What one process has done with TensorFlow since its last step."""

    def __init__(self, recorder: core.Recorder, tensorflow: Any) -> None:
        self.recorder, self.tensorflow = recorder, tensorflow
        self.helpers = core.HelperFrames({text: (name, HELPERS[name]) for text, name in DOCSTRINGS.items()})
        self.tape = sys.modules.get("tensorflow.python.eager.record") or sys.modules["tensorflow.python.eager.tape"]
        self.restart()

    def restart(self) -> None:
        """Begin anew, as a process that has just been forked does."""
        self.inside = _Inside()
        self.optimizers = core._ByIdentity()
        self.models = core._ByIdentity()
        self.held: list[tuple[Any, list[Variable]]] = []
        self.caller: core.Frame | None = None
        self.is_backward = False
        self.helper: tuple[core.Frame, object] | None = None
        self.keras = ""
        self.place: Variable = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be recorded."""
        return self.recorder.is_stopped

    def later(self, function: Run, tensors: Sequence[Any]) -> None:
        """Give the values of ``tensors`` to ``function``: now, or whenever the graph that is being traced runs."""
        if self.tensorflow.executing_eagerly():
            function(*[each.numpy() if hasattr(each, "numpy") else each for each in tensors])
        elif self.tensorflow.inside_function():
            # What is written to one variable runs in the order of the program, also in the branches of a condition.
            place = self._place_in_order()
            run = functools.partial(self._run, function)
            done = self.tensorflow.numpy_function(run, [place.read_value(), *tensors], [])
            with self.tensorflow.control_dependencies([done]):
                place.assign_add(1)

    def _run(self, function: Run, place: Array, *arrays: Array) -> None:
        self.recorder.attempt(function, *arrays)

    def _place_in_order(self) -> Variable:
        if self.place is None:
            operations = sys.modules["tensorflow.python.ops.resource_variable_ops"]
            with self.tensorflow.init_scope(), self.tensorflow.device("CPU:0"):
                self.place = operations.ResourceVariable(0, trainable=False)  # of no strategy
        return self.place

    def read(self, variable: Variable) -> Tensor:
        """The value of a variable of TensorFlow or of Keras 3."""
        return self.tensorflow.convert_to_tensor(_same(variable)[-1])

    # The model's call and the gradient

    def after_call(self, layer: Any, given: Any) -> None:
        """A layer was called that no other layer calls; inputs that depend on no variable are its batch."""
        self.helper = None
        if not self.tape.could_possibly_record():
            return
        if self.models.get(layer) is None:
            self.models.set(layer, True)
            self._hold(layer)
            roots = [cls.__module__.split(".")[0] for cls in type(layer).__mro__]
            self.keras = next((root for root in roots if root in ("keras", "tf_keras")), "")
        flat = self.tensorflow.nest.flatten(given, expand_composites=True)
        tensors = [each for each in flat if isinstance(each, (self.tensorflow.Tensor, numpy.ndarray))]
        batch = [each for each in tensors if not self._is_computed(each)]
        if batch:
            self.later(self._take_batch, batch)

    def _is_computed(self, tensor: Any) -> bool:
        return not isinstance(tensor, numpy.ndarray) and self.tape.should_record_backprop([tensor])

    def _take_batch(self, *arrays: Array) -> None:
        batch = self.recorder.batch = self.recorder.batch or hashlib.sha256()
        batch.update("".join(map(digest, arrays)).encode())

    def _hold(self, layer: Any) -> None:
        """Keep the variables of a model that may be gone at the end; another of the same form takes its place."""
        held = list(layer.non_trainable_weights)
        form = list(map(_form, held))
        if held:
            self.held = [
                (other, variables)
                for other, variables in self.held
                if other() is not None or list(map(_form, variables)) != form
            ]
            self.held.append((weakref.ref(layer), held))

    def before_gradient(self) -> None:
        """A gradient is about to be taken."""
        self.recorder.device = self.recorder.device or self._device()
        self.recorder.starts_to_train(self._random_states, self._seed())

    def _device(self) -> str:
        return "cuda" if self.tensorflow.config.list_logical_devices("GPU") else "cpu"

    def _context(self) -> Any:
        return sys.modules["tensorflow.python.eager.context"].context()

    def _seed(self) -> Any:
        return getattr(self._context(), "_seed", None)

    def _random_states(self) -> dict[str, str]:
        generator = getattr(self._context(), "_rng", None)
        drawn = generator.getstate() if generator is not None else ""
        return {"tensorflow": core._digest(repr((self._seed(), drawn)).encode())}

    def after_gradient(self, target: Any) -> None:
        """The gradient of ``target``, a loss or several, was taken."""
        losses = [each for each in self.tensorflow.nest.flatten(target) if each is not None]
        self.later(self._take_losses, losses)

    def _take_losses(self, *arrays: Array) -> None:
        values = [numpy.asarray(each, numpy.float64) for each in arrays]
        found = [core._number(each.item() if each.size == 1 else numpy.linalg.norm(each)) for each in values]
        self.recorder.losses.append(found)

    # The update

    def before_update(self, update: Updating, pairs: Sequence[tuple[Tensor, Variable]]) -> None:
        """An optimizer is about to apply gradients, or one inside of it."""
        self.helper = None
        applied = self.optimizers.get(update.optimizer)
        if applied is None:
            applied = Applied(update.optimizer, [variable for _, variable in pairs])
            self.optimizers.set(update.optimizer, applied)
        update.applied = applied
        rate = self._rate(update.optimizer)
        values = [self.read(variable) for variable in applied.variables]
        self.later(functools.partial(self._begin_update, applied), [rate, *values])

    def _rate(self, optimizer: Any) -> Any:
        rate = getattr(optimizer, "_learning_rate", None)  # a schedule; the property may be that of the last step
        rate = getattr(optimizer, "learning_rate", numpy.nan) if rate is None else rate
        return self.read(rate(optimizer.iterations) if callable(rate) else rate)

    def _begin_update(self, applied: Applied, rate: Array, *values: Array) -> None:
        applied.rates, applied.gradients = [core._number(rate)], None
        if applied.known.number is None and self.recorder.written < self.recorder.options.limit:
            applied.start = list(map(fingerprint, values))

    def apply(self, update: Updating, pairs: Sequence[tuple[Tensor, Variable]]) -> None:
        """Gradients are applied as they are here, clipped and accumulated."""
        update.has_gradients = True
        self._note_gradients(update, pairs)

    def _note_gradients(self, update: Updating, pairs: Sequence[tuple[Tensor, Variable]]) -> None:
        applied = update.applied
        if applied is None:
            return
        places: list[tuple[int, bool]] = []
        sent: list[Tensor] = []
        for gradient, variable in pairs:
            place = applied.places.get(id(variable))
            if gradient is not None and place is not None:
                is_sparse = isinstance(gradient, self.tensorflow.IndexedSlices)
                places.append((place, is_sparse))
                sent += [gradient.values, gradient.indices] if is_sparse else [gradient]
        self.later(functools.partial(self._take_gradients, applied, places), sent)

    def _take_gradients(self, applied: Applied, places: Sequence[tuple[int, bool]], *arrays: Array) -> None:
        found: list[Entry | None] = [None] * len(applied.variables)
        left = iter(arrays)
        is_kept = self.recorder.keeps(applied.known.steps)
        for place, is_sparse in places:
            value, indices = next(left), next(left) if is_sparse else None
            shape = applied.variables[place].shape
            if is_kept:
                found[place] = sparse_fingerprint(value, indices, shape) if is_sparse else fingerprint(value)
        applied.gradients = found

    def after_update(self, update: Updating, pairs: Sequence[tuple[Tensor, Variable]]) -> None:
        """An optimizer has applied gradients, unless another one did for it."""
        applied = update.applied
        if applied is None or update.has_inner:
            return
        if not update.has_gradients:
            self._note_gradients(update, pairs)
        values = [self.read(variable) for variable in applied.variables]
        self.later(functools.partial(self._end_update, applied), values)

    def _end_update(self, applied: Applied, *values: Array) -> None:
        gradients, applied.gradients = applied.gradients, None
        if gradients is None:
            return  # gradients were accumulated
        recorder, known = self.recorder, applied.known
        is_kept = recorder.keeps(known.steps)
        event = recorder.new_step(applied.rates)
        if is_kept:
            event["gradients"] = gradients
            event["parameters"] = list(map(fingerprint, values))
        known.start = applied.start
        recorder.take_step(event, known, applied.described)
        recorder.last = None if is_kept else (event, functools.partial(self._fingerprints, applied.variables))

    def _fingerprints(self, variables: Sequence[Variable]) -> list[Entry]:
        return [fingerprint(self.read(variable).numpy()) for variable in variables]

    # Collectives

    def collective(
        self,
        kind: str,
        reduction: str,
        purpose: str,
        is_exact: bool,
        sent: Sequence[Any],
        site: Any = None,
        dtype: str = "",
    ) -> None:
        """Note a collective of tensors; their sizes may be known only when the graph runs."""
        tensors = [each.values if isinstance(each, self.tensorflow.IndexedSlices) else each for each in sent]
        tensors = [each if hasattr(each, "dtype") else self.tensorflow.convert_to_tensor(each) for each in tensors]
        types = [dtype if dtype and "float" in _dtype(each) else _dtype(each) for each in tensors]
        run = functools.partial(self._take_collective, (kind, reduction, purpose, is_exact), types, site)
        self.later(run, [self.tensorflow.size(self.read(each)) for each in tensors])

    def _take_collective(
        self, what: tuple[str, str, str, bool], types: Sequence[str], site: Any, *sizes: Array
    ) -> None:
        collective = core.Collective(*what)
        for dtype, size in zip(types, sizes):
            collective.add(dtype, int(size))
        if collective.purpose == "gradients":
            self.recorder.gradients.append(collective)
        else:
            self.recorder.add(collective, site)

    def strategy_collective(self, kind: str, operation: Any, sent: Sequence[Any], caller: core.Frame) -> None:
        """A replica calls a collective of tf.distribute."""
        frames = [each for start in (caller, self.caller) if start is not None for each in core._frames(start)]
        if any(each.f_code.co_name.endswith("_moments") for each in frames):
            return  # BatchNormalization over all workers
        reduction = "" if operation is None else "average" if "MEAN" in str(operation).upper() else "sum"
        found = self.helpers.outermost(self.caller) if self.caller is not None else None
        if found is not None:
            self._helper_collective(reduction, sent, *found)
            return
        module = next((each for each in map(core._module_of, frames) if each.split(".")[0] not in OWN), "")
        if module.split(".")[0] not in ("keras", "tf_keras"):
            self.collective(kind, reduction, "value", reduction != "sum", sent)
        elif "optimizer" in module and operation is not None:
            self.collective(kind, reduction, "gradients", False, sent)

    def _helper_collective(
        self, reduction: str, sent: Sequence[Any], frame: core.Frame, name: str, helper: core.Helper
    ) -> None:
        is_first = self.helper is None or self.helper[0] is not frame
        if self.helper is None or is_first:
            self.helper = frame, object()
        if helper.purpose == "gradients":
            self.collective(helper.kind, reduction, "gradients", True, sent)
        elif helper.purpose == "state":
            self.collective(helper.kind, "", "state", True, sent, self.helper[1])
        elif name == "reduce_over_workers":
            for tensor in sent:
                self.collective(helper.kind, reduction, "value", True, [tensor])
        elif is_first:
            given = [] if helper.kind == "object" else [frame.f_locals[frame.f_code.co_varnames[0]]]
            self.collective(helper.kind, _reduction_of(helper, reduction, frame), "value", True, given)

    # What is saved, and the end

    def saved_model(self, model: Any, path: Any) -> None:
        """A model or its weights are saved."""
        variables = list(model.weights)
        values = [digest(self.read(variable).numpy()) for variable in variables]
        self.recorder.saved(path, _numbered(variables), values)

    def saved_checkpoint(self, path: Any) -> None:
        """A checkpoint is saved."""
        reader = self.tensorflow.train.load_checkpoint(path)
        names = sorted(name for name in reader.get_variable_to_shape_map() if name != "_CHECKPOINTABLE_OBJECT_GRAPH")
        self.recorder.saved(path, names, [digest(reader.get_tensor(name)) for name in names])

    def buffers(self) -> Event:
        """The variables that models hold and do not train."""
        found: Event = {}
        for number, (reference, held) in enumerate(self.held):
            layer = reference()
            variables = held if layer is None else list(layer.non_trainable_weights)
            prefix = f"{number}." if len(self.held) > 1 else ""
            found.update(
                (prefix + name, each) for name, each in zip(_numbered(variables), self._fingerprints(variables))
            )
        return found

    def conditions(self) -> dict[str, str]:
        """Versions, threads and settings."""
        tensorflow = self.tensorflow
        keras = sys.modules.get(self.keras) or sys.modules.get("tf_keras") or sys.modules.get("keras")
        config = sys.modules["tensorflow.python.framework.config"]
        is_deterministic = getattr(config, "is_op_determinism_enabled", bool)()
        found = {
            "tensorflow": str(tensorflow.__version__),
            "keras": str(getattr(keras, "__version__", "")),
            "intra-op threads": str(tensorflow.config.threading.get_intra_op_parallelism_threads()),
            "inter-op threads": str(tensorflow.config.threading.get_inter_op_parallelism_threads()),
            "deterministic": "yes" if is_deterministic else "no",
        }
        port = sys.modules.get("tensorflow.python.util._pywrap_util_port")
        if port is not None:
            found["oneDNN"] = "yes" if port.IsMklEnabled() else "no"
        return found


def _form(variable: Variable) -> tuple[str, tuple[int, ...]]:
    return _leaf(variable), tuple(variable.shape)


def _numbered(variables: Sequence[Variable]) -> list[str]:
    """Names of variables by their order, because Keras counts its layers on from one model to the next."""
    return [f"{number}.{_leaf(variable)}" for number, variable in enumerate(variables)]


def _reduction_of(helper: core.Helper, called: str, frame: core.Frame) -> str:
    """What a helper makes of a tensor, where ``called`` is the reduction that it calls."""
    reduce = getattr(frame.f_locals.get("reduce"), "__name__", "")
    if helper.reduction == "op":
        return {"reduce_min": "min", "reduce_max": "max", "reduce_prod": "product"}.get(reduce, "")
    return helper.reduction and ("average" if called == "average" else helper.reduction)


# Hooks


def hook(recorder: core.Recorder, tensorflow: Any) -> None:
    """Hook what trains, once TensorFlow is loaded, and Keras once that is."""
    found = TensorFlow(recorder, tensorflow)
    recorder.frameworks.append(found)
    _hook_gradient(found, tensorflow.GradientTape)
    _hook_functions(type(tensorflow.function(lambda: None)))
    _hook_strategies(found, tensorflow.distribute)
    _hook_checkpoints(found, tensorflow.train.Checkpoint)
    actions = {
        f"{package}.{module}": core._tolerant(recorder, functools.partial(_hook_keras, found, names))
        for package in PACKAGES
        for module, names in KERAS.items()
    }
    actions["horovod.tensorflow"] = core._tolerant(recorder, functools.partial(_hook_horovod, found))
    api = "tensorflow.python.autograph.impl.api"
    actions[api] = core._tolerant(recorder, functools.partial(_hook_conversion, found))
    core.ImportHooks(actions).install()


def _wraps(original: Callable[..., Any]) -> Callable[[Run], Run]:
    """As functools.wraps; AutoGraph calls the wrapper as it is."""

    def decorate(wrapper: Run) -> Run:
        wrapper = functools.wraps(original)(wrapper)
        wrapper.autograph_info__ = {}  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _owner(cls: Any, name: str) -> Any:
    return next(each for each in cls.__mro__ if name in vars(each))


def _hook_gradient(found: TensorFlow, cls: Any) -> None:
    original = cls.gradient

    @_wraps(original)
    def gradient(self: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if found.is_idle or found.inside.gradient:
            return original(self, target, *args, **kwargs)
        found.recorder.attempt(found.before_gradient)
        with found.inside.entered("gradient"):
            result = original(self, target, *args, **kwargs)
        found.recorder.attempt(found.after_gradient, target)
        return result

    cls.gradient = gradient


def _hook_conversion(found: TensorFlow, api: Any) -> None:
    """Learn of the code that AutoGraph makes of functions, and runs instead of them."""
    original = api._convert_actual

    @functools.wraps(original)
    def convert(*args: Any, **kwargs: Any) -> Any:
        converted = original(*args, **kwargs)
        found.recorder.attempt(_add_origins, found.recorder.lines, converted.ag_source_map)
        return converted

    api._convert_actual = convert


def _add_origins(lines: core.Lines, source_map: Mapping[Any, Any]) -> None:
    pairs = [(made, origin.loc) for made, origin in source_map.items()]
    lines.add_origins({(made.filename, made.lineno): (place.filename, place.lineno) for made, place in pairs})


def _hook_functions(cls: Any) -> None:
    """Have functions compiled by TensorFlow itself, not by XLA."""
    original = cls.__init__

    @_wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **{**kwargs, **({"jit_compile": None} if kwargs.get("jit_compile") else {})})

    cls.__init__ = __init__


def _hook_strategies(found: TensorFlow, distribute: Any) -> None:
    cls = _owner(distribute.Strategy, "run")
    original = cls.run

    @_wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = found.caller, found.is_backward
        found.caller, found.is_backward = sys._getframe(1), found.inside.gradient  # the replica has a thread of its own
        try:
            return original(self, *args, **kwargs)
        finally:
            found.caller, found.is_backward = before

    cls.run = run
    for name, kind in (("all_reduce", "allreduce"), ("all_gather", "allgather")):
        _hook_replicas(found, _owner(distribute.ReplicaContext, name), name, kind)


def _hook_replicas(found: TensorFlow, cls: Any, name: str, kind: str) -> None:
    original = getattr(cls, name)
    names = list(inspect.signature(original).parameters)[1:]

    @_wraps(original)
    def collective(self: Any, *args: Any, **kwargs: Any) -> Any:
        if found.is_idle or found.inside.collective or found.inside.gradient or found.is_backward:
            return original(self, *args, **kwargs)
        given = functools.partial(core._argument, names, args, kwargs)
        sent = found.tensorflow.nest.flatten(given("value"))
        if found.tensorflow.distribute.has_strategy():
            found.recorder.attempt(found.strategy_collective, kind, given("reduce_op"), sent, sys._getframe(1))
        with found.inside.entered("collective"):
            return original(self, *args, **kwargs)

    setattr(cls, name, collective)


def _hook_keras(found: TensorFlow, names: Sequence[str], module: Any) -> None:
    for name in names:
        cls = vars(module).get(name)
        if isinstance(cls, type) and cls.__module__ == module.__name__:
            if name == "Layer":
                _hook_layer(found, cls)
            elif name == "Model":
                _hook_model(found, cls)
            else:
                _hook_optimizer(found, cls)


def _hook_layer(found: TensorFlow, cls: Any) -> None:
    original = cls.__call__

    @_wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        inside = found.inside
        if found.is_idle or inside.call or inside.gradient:
            return original(self, *args, **kwargs)
        with inside.entered("call"):
            result = original(self, *args, **kwargs)
        # Later than the call, because the seeds of random operations depend on how many there are before them.
        found.recorder.attempt(found.after_call, self, [args, kwargs])
        return result

    cls.__call__ = call


def _hook_model(found: TensorFlow, cls: Any) -> None:
    for name in ("save", "save_weights"):
        if name in vars(cls):
            setattr(cls, name, _saving(found, getattr(cls, name)))


def _saving(found: TensorFlow, original: Callable[..., Any]) -> Run:
    @_wraps(original)
    def save(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        if found.is_idle or found.inside.save:
            return original(self, filepath, *args, **kwargs)
        with found.inside.entered("save"):
            result = original(self, filepath, *args, **kwargs)
        if isinstance(filepath, (str, os.PathLike)):
            found.recorder.attempt(found.saved_model, self, filepath)
        return result

    return save


def _hook_checkpoints(found: TensorFlow, cls: Any) -> None:
    for name in ("save", "write"):
        setattr(cls, name, _checkpointing(found, getattr(cls, name)))


def _checkpointing(found: TensorFlow, original: Callable[..., Any]) -> Run:
    @_wraps(original)
    def save(self: Any, *args: Any, **kwargs: Any) -> Any:
        if found.is_idle or found.inside.save:
            return original(self, *args, **kwargs)
        with found.inside.entered("save"):
            path = original(self, *args, **kwargs)
        if found.tensorflow.executing_eagerly():
            found.recorder.attempt(found.saved_checkpoint, path)
        return path

    return save


def _hook_optimizer(found: TensorFlow, cls: Any) -> None:
    if "apply" in vars(cls):
        cls.apply = _updating(found, cls.apply, lambda gradients, variables: zip(gradients, variables))
    elif "apply_gradients" in vars(cls) and not hasattr(cls, "apply"):
        cls.apply_gradients = _updating(found, cls.apply_gradients, None)
    for name, pairs in APPLIES.items():
        if name in vars(cls):
            setattr(cls, name, _applying(found, getattr(cls, name), pairs))


def _updating(found: TensorFlow, original: Callable[..., Any], joined: Callable[..., Any] | None) -> Run:
    """Hook a method that is given gradients and variables, in pairs or, if they are to be ``joined``, apart."""

    @_wraps(original)
    def update(self: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        updates = found.inside.updates
        if found.is_idle or (updates and updates[-1].optimizer is self):
            return original(self, given, *args, **kwargs)
        given = list(given)
        variables: Any = args[0] if args else kwargs.get("trainable_variables")
        if variables is None:
            variables = getattr(self, "_trainable_variables", ())
        pairs = given if joined is None else list(joined(given, list(variables)))
        running = Updating(self)
        if updates:
            updates[-1].has_inner = True
        updates.append(running)
        found.recorder.attempt(found.before_update, running, pairs)
        try:
            result = original(self, given, *args, **kwargs)
        finally:
            updates.remove(running)
        found.recorder.attempt(found.after_update, running, pairs)
        return result

    return update


def _applying(found: TensorFlow, original: Callable[..., Any], pairs: Callable[..., Any]) -> Run:
    @_wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        updates = found.inside.updates
        if updates and updates[-1].optimizer is self and not updates[-1].has_gradients:
            found.recorder.attempt(found.apply, updates[-1], list(pairs(*args, **kwargs)))
        return original(self, *args, **kwargs)

    return apply


# Horovod


def _hook_horovod(found: TensorFlow, horovod: Any) -> None:
    """Hook the collectives of ``horovod.tensorflow``, Horovod's own or the stand-in's, wherever they are named."""
    reductions = {
        getattr(horovod, name): name.lower()
        for name in ("Average", "Sum", "Adasum", "Min", "Max", "Product")
        if hasattr(horovod, name)
    }
    replaced: dict[int, Run] = {}
    for name, function in list(vars(horovod).items()):
        match = core.HOROVOD.fullmatch(name)
        kind = match[2] if match else name if name in ("join", "barrier") else ""
        if name in ("broadcast_variables", "broadcast_global_variables"):
            kind = "state"
        elif name in ("broadcast_object", "allgather_object"):
            kind = "object"
        if kind and inspect.isfunction(function):
            replaced[id(function)] = _collective_of_horovod(found, function, kind, reductions)
    for name, module in list(sys.modules.items()):
        if (name + ".").startswith("horovod."):
            for attribute, value in list(vars(module).items()):
                if id(value) in replaced:
                    setattr(module, attribute, replaced[id(value)])
    _hook_gradients(found, horovod, reductions)


def _hook_gradients(found: TensorFlow, horovod: Any, reductions: Mapping[Any, str]) -> None:
    """Hook what reduces the gradients of optimizers and tapes: what a function returns, or a class of the stand-in."""
    make = getattr(horovod, "_make_allreduce_grads_fn", None)
    if make is not None:
        names = list(inspect.signature(make).parameters)

        @_wraps(make)
        def made(*args: Any, **kwargs: Any) -> Any:
            given = functools.partial(core._argument, names, args, kwargs)
            options = [given(name) for name in ("op", "compression", "sparse_as_dense")]
            reduce = _reducing(found, make(*args, **kwargs), reductions)
            return functools.partial(reduce, options)

        horovod._make_allreduce_grads_fn = made
    own = getattr(sys.modules.get("horovod.tensorflow._gradients"), "Reduction", None)
    if own is not None:
        original = own.__call__

        @_wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            options = [self.op, self.compression, self.sparse_as_dense]
            return _reducing(found, functools.partial(original, self), reductions)(options, *args, **kwargs)

        own.__call__ = call


def _collective_of_horovod(
    found: TensorFlow, original: Callable[..., Any], kind: str, reductions: Mapping[Any, str]
) -> Run:
    signature = inspect.signature(original)
    names = list(signature.parameters)
    default = signature.parameters["op"].default if "op" in signature.parameters else None

    def note(args: tuple[Any, ...], kwargs: dict[str, Any], caller: core.Frame) -> None:
        given = functools.partial(core._argument, names, args, kwargs)
        site = id(caller.f_code), caller.f_lasti, given("root_rank")
        if kind in ("object", "join", "barrier"):
            found.collective(kind, "", "value", True, ())
            return
        single = [
            each for each in (given("tensor"), given("variables") if kind != "state" else None) if each is not None
        ]
        sent = single or list(given("tensors") or given("variables") or ())
        if kind in ("state", "broadcast"):
            found.collective(
                "broadcast", "", "state" if kind == "state" else "value", True, sent, None if kind == "state" else site
            )
            return
        reduction = _reduction(given, default) if kind in ("allreduce", "reducescatter") else ""
        for tensor in sent:
            found.collective(kind, reduction, "value", True, [tensor])

    def _reduction(given: Callable[[str], Any], default: Any) -> str:
        op = given("op") if given("op") is not None else default
        if op is None:
            return "sum" if given("average") is False else "average"
        return reductions.get(op, "")

    @_wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if found.is_idle or found.inside.collective or found.inside.gradient:
            return original(*args, **kwargs)
        with contextlib.suppress(Exception):  # arguments that Horovod will refuse
            note(args, kwargs, sys._getframe(1))
        with found.inside.entered("collective"):
            return original(*args, **kwargs)

    return collective


def _reducing(found: TensorFlow, original: Callable[..., Any], reductions: Mapping[Any, str]) -> Run:
    """Hook a reduction of gradients; before its own arguments the new one takes those that say how it is done."""

    def note(options: Sequence[Any], gradients: Sequence[Any]) -> None:
        op, compression, is_dense = options
        present = [each for each in gradients if each is not None]
        present = [found.tensorflow.convert_to_tensor(each) for each in present] if is_dense else present
        dtype = "float16" if "FP16" in getattr(compression, "__name__", "") else ""
        found.collective("allreduce", reductions.get(op, ""), "gradients", True, present, None, dtype)

    @_wraps(original)
    def reduce(options: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        if found.is_idle or found.inside.collective:
            return original(*args, **kwargs)
        gradients = next(each for each in (*args, *kwargs.values()) if isinstance(each, (list, tuple)))
        found.recorder.attempt(note, options, gradients)
        with found.inside.entered("collective"):
            return original(*args, **kwargs)

    return reduce

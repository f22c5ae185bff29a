"""The errors that Horovod raises, and catches in elastic training."""


class HorovodInternalError(RuntimeError):
    """A collective failed, on this rank or on another; elastic training goes back to the last commit."""


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts have changed; elastic training starts again from the state as it is."""

    def __init__(self, skip_sync: bool) -> None:
        self.skip_sync = skip_sync


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    return (
        f"Framework {name} installed with version {installed_version} but found version {version}.\n"
        "             This can result in unexpected behavior including runtime errors.\n"
        "             Reinstall Horovod using `pip install --no-cache-dir` to build with the new version."
    )


class HorovodVersionMismatchError(ImportError):
    """The framework is not the one that Horovod was built with."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version

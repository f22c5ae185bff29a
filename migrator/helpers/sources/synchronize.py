from typing import Any

from migrator.helpers.handle import Handle


def synchronize(handle: Handle) -> Any:
    """Wait for the collective of ``handle`` and return its result."""
    for work in handle.works:
        work.wait()
    return handle.result()

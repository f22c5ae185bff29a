from migrator.helpers.handle import Handle
from migrator.helpers.synchronize import synchronize


def poll(handle: Handle) -> bool:
    """Whether the collective of ``handle`` is done; if so, what it works on in place holds the result."""
    done = all(work.is_completed() for work in handle.works)
    if done:
        synchronize(handle)
    return done

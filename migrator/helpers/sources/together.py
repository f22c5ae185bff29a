from migrator.helpers.handle import Handle


def together(handles: list) -> Handle:
    """Return one handle for several collectives, whose result is the tuple of theirs."""
    works = [work for handle in handles for work in handle.works]
    return Handle(works, lambda: tuple(handle.result() for handle in handles))

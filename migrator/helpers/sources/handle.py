from functools import lru_cache
from typing import Any, Callable


class Handle:
    """A collective under way: its works, and what gives its result once they are done."""

    def __init__(self, works: list, result: Callable[[], Any]) -> None:
        self.works, self.result = works, lru_cache(None)(result)

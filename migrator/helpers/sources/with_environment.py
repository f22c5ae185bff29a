import os
from typing import Callable


def with_environment(function: Callable, variables: dict) -> Callable:
    """Make ``function`` set environment ``variables`` before it begins."""

    def run(*args, **kwargs) -> object:
        os.environ.update(variables)
        return function(*args, **kwargs)

    return run

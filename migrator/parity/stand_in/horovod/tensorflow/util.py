"""Small functions that Horovod's modules for TensorFlow share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def _executing_eagerly() -> bool:
    """Whether operations run at once, and no graph is being made."""
    return bool(tf.executing_eagerly())


def _make_subgraph(f: Callable[..., Any]) -> Any:
    return tf.function(f)


def _cache(f: Callable[..., Any]) -> Callable[..., Any]:
    """Call ``f`` once for each choice of arguments, in graphs and outside."""
    known: dict[Any, Any] = {}

    def wrapper(*args: Any) -> Any:
        key = (args, _executing_eagerly())
        if key not in known:
            known[key] = f(*args)
        return known[key]

    return wrapper


def _leave_to_python() -> None:
    """Keep AutoGraph, which rewrites functions of a program for its graphs, from rewriting those of Horovod."""
    from tensorflow.python.autograph.core import config, config_lib

    config.CONVERSION_RULES = (config_lib.DoNotConvert("horovod"), *config.CONVERSION_RULES)


def vars_to_refs(vars: Any) -> Any:
    """Variables, or lists of them, as what can be hashed."""
    return tuple(vars_to_refs(v) for v in vars) if isinstance(vars, list) else vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """The inverse of ``vars_to_refs``."""
    return [refs_to_vars(r) for r in refs] if isinstance(refs, tuple) else refs.deref()

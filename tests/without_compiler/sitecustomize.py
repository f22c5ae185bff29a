"""Keeps DeepSpeed from compiling its shared-memory communication for CPUs, which takes minutes and a compiler."""

import sys
from importlib.machinery import PathFinder

OPERATION = "deepspeed_shm_comm"


class WithoutCompiler:
    """Loads ``deepspeed.ops`` as one that finds the operation not to be compatible."""

    def find_spec(self, name, path=None, target=None):
        if name != "deepspeed.ops":
            return None
        spec = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def execute(module):
            load(module)
            module.__compatible_ops__ = {**module.__compatible_ops__, OPERATION: False}

        spec.loader.exec_module = execute
        return spec


sys.meta_path.insert(0, WithoutCompiler())

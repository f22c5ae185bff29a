"""Run several programs on one rank, one after the other: starting Horovod takes longer than any of them.

``python one_after_another.py FOLDER PROGRAM ...`` puts what each prints into ``FOLDER/program.rank``.
"""

import contextlib
import gc
import os
import runpy
import sys
from pathlib import Path

import horovod.torch as hvd

hvd.init()
folder = Path(sys.argv[1])
for path in map(Path, sys.argv[2:]):
    work = folder / path.stem
    work.mkdir(exist_ok=True)
    os.chdir(work)
    with (folder / f"{path.stem}.{hvd.rank()}").open("w") as out, contextlib.redirect_stdout(out):
        runpy.run_path(str(path), run_name="__main__")
    gc.collect()

"""Ask the questions of several topics in one process: ``one_after_another.py OUTPUT TOPIC...``.

What a topic prints goes to ``OUTPUT/TOPIC.RANK``.
"""

import contextlib
import gc
import os
import sys
import traceback
from pathlib import Path

import tensorflow as tf

import horovod.tensorflow as hvd

HERE = Path(__file__).resolve().parent
output, *topics = sys.argv[1:]
for topic in topics:
    program = Path(output, f"{topic}.{os.environ['RANK']}.py")
    program.write_text("".join((HERE / name).read_text("utf-8") for name in ("ask.py", f"{topic}.py")), "utf-8")
    with open(Path(output, f"{topic}.{os.environ['RANK']}"), "w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        try:
            exec(compile(program.read_text("utf-8"), str(program), "exec"), {"__name__": "__main__"})
        except Exception:
            traceback.print_exc()
    hvd.shutdown()
    tf.keras.backend.clear_session()
    gc.collect()

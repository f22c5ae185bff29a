import contextlib
import os
import re
import tempfile
import time

os.environ["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "1"


@contextlib.contextmanager
def captured(found):
    """What is written to stderr, from whatever language."""
    with tempfile.TemporaryFile() as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            found.append(file.read().decode())


def missing(said):
    """The names that the first warning says are missing, by rank."""
    start = said.find("Missing ranks:")
    return re.findall(r"^(\d+): \[(.*?)\]", said[start:], re.MULTILINE)[: hvd.size() - 1] if start >= 0 else []


hvd.init()
r, n = hvd.rank(), hvd.size()
said = []


def late(seconds):
    if r:
        time.sleep(seconds)
    return hvd.allreduce(torch.tensor([1.0 + r]), name="late")


with captured(said):
    ask("late", lambda: late(2.5))
ask("late.missing", lambda: missing(said[0]))

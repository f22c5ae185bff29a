"""How long the comparison of a small program with its migration takes, on two ranks.

    python benchmarks/parity.py

The program is a multilayer perceptron of `tests/parity_programs`, the original with the stand-in for Horovod. Exit code
1 when it takes a minute or longer, or the two are not equal.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "tests" / "parity_programs" / "mlp.py"
LIMIT = 60.0


def main() -> int:
    """Measure, print the line; 1 when the limit is missed."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(PROGRAM, scratch)
        start = time.perf_counter()
        command = [sys.executable, "-m", "migrator.cli", "parity", "-q", PROGRAM.name, "-np", "2"]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
    verdict = "ok" if done.returncode == 0 and seconds < LIMIT else "MISSED"
    line = f"{'parity of a small program, two ranks':58} {seconds:4.1f} s  under {LIMIT:.0f} s  {verdict:6}"
    print(line, done.stdout.strip())
    return 0 if verdict == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())

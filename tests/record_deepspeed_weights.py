"""Record what real Horovod trains of fixtures/deepspeed_weights: ``python record_deepspeed_weights.py [NAME ...]``.

``horovodrun`` must be on PATH, with its Python beside it. Each case leaves a ``checkpoint.pt``; its ``weights.json``
holds the tensors of the model in it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

CASES = Path(__file__).resolve().parent.parent / "fixtures" / "deepspeed_weights"
RANKS = 2
READ = """
import json, sys, torch
model = torch.load(sys.argv[1])["model"]
print(json.dumps({name: tensor.tolist() for name, tensor in model.items()}))
"""


def record(case: Path, horovodrun: Path) -> None:
    """Write the weights that the ranks of horovodrun train."""
    python = horovodrun.with_name("python")
    start = [horovodrun, "-np", str(RANKS), "--gloo", "-H", f"localhost:{RANKS}", python, case / "before.py"]
    with tempfile.TemporaryDirectory() as folder:
        run(start, folder, {"OMP_NUM_THREADS": "1"})
        text = run([python, "-c", READ, "checkpoint.pt"], folder, {})
    weights = json.loads(text)
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in weights.items())
    (case / "weights.json").write_text(f"{{\n{lines}\n}}\n", "utf-8")


def run(command: list[str | Path], folder: str, more: Mapping[str, str]) -> str:
    """What a command prints."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **more}, timeout=300, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


if __name__ == "__main__":
    launcher = shutil.which("horovodrun")
    assert launcher is not None, "horovodrun is not on PATH"
    wanted = sys.argv[1:]
    for case in sorted(path.parent for path in CASES.glob("*/before.py")):
        if not wanted or case.name in wanted:
            record(case, Path(launcher))

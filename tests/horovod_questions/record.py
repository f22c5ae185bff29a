"""Record real Horovod's answers to these questions, on two and on three ranks: ``python record.py [TOPIC ...]``.

``horovodrun`` must be on PATH, with its Python beside it.
"""

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "horovod_traces"))

from record import run  # noqa: E402

ANSWERS = HERE.parent / "horovod_answers.json"
ON_THREE_RANKS_ONLY = ("within",)


def main(topics: list[str]) -> None:
    """Ask the questions of the named topics, or all of them."""
    answers: dict[str, dict[str, dict[str, dict[str, str]]]] = json.loads(ANSWERS.read_text()) if topics else {}
    for path in sorted(HERE.glob("*.py")):
        if path.stem in ("ask", "record") or (topics and path.stem not in topics):
            continue
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, path.name)
            program.write_text((HERE / "ask.py").read_text() + path.read_text())
            sizes = (3,) if path.stem in ON_THREE_RANKS_ONLY else (2, 3)
            answers[path.stem] = {str(size): run(program, size) for size in sizes}
    ANSWERS.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

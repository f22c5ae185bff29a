"""Record real Horovod's answers to these questions, on two and on three ranks: ``python record.py [TOPIC ...]``.

``horovodrun`` must be on PATH, with its Python beside it. Those under ``stand_in`` run twice: an answer that is not the
same both times ends the recording.
"""

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "horovod_traces"))

from record import Trace, run  # noqa: E402

STAND_IN = HERE / "stand_in"
ANSWERS = {HERE: HERE.parent / "horovod_answers.json", STAND_IN: STAND_IN / "answers.json"}
SIZES = {"within": (3,), "api": (2,)}


def main(topics: list[str]) -> None:
    """Ask the questions of the named topics, or all of them."""
    for folder, file in ANSWERS.items():
        paths = [path for path in sorted(folder.glob("*.py")) if path.stem not in ("ask", "record")]
        wanted = [path for path in paths if path.stem in topics or not topics]
        known: dict[str, dict[str, Trace]] = json.loads(file.read_text()) if file.exists() else {}
        known |= {path.stem: {str(size): record(path, size) for size in SIZES.get(path.stem, (2, 3))} for path in wanted}
        if wanted:
            kept = {path.stem: known[path.stem] for path in paths if path.stem in known}
            file.write_text(json.dumps(kept, indent=1) + "\n")


def record(path: Path, size: int) -> Trace:
    """The answers of each rank to the questions of one topic."""
    print("recording", path.stem, "on", size, "ranks", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, path.name)
        program.write_text((HERE / "ask.py").read_text() + path.read_text())
        answers = run(program, size)
        if path.parent == STAND_IN and run(program, size) != answers:
            raise SystemExit(f"{path.stem} is not stable")
        return answers


if __name__ == "__main__":
    main(sys.argv[1:])

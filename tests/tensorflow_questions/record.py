"""Record real Horovod's answers to these questions, on two ranks: ``python record.py [TOPIC ...]``.

``horovodrun`` must be on PATH, with its Python beside it, which has TensorFlow 2.15 and Keras 2. Every topic runs twice:
an answer that is not the same both times ends the recording. Horovod is not asked about ``failures``: it crashes.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "horovod_traces"))

from record import Trace, run  # noqa: E402

ANSWERS = HERE / "answers.json"


def main(topics: list[str]) -> None:
    """Ask the questions of the named topics, or all of them."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    paths = [path for path in sorted(HERE.glob("*.py")) if path.stem not in ("ask", "record", "all", "failures")]
    known: dict[str, dict[str, Trace]] = json.loads(ANSWERS.read_text("utf-8")) if ANSWERS.exists() else {}
    for path in paths:
        if path.stem in topics or not topics:
            known[path.stem] = {"2": record(path)}
            kept = {one.stem: known[one.stem] for one in paths if one.stem in known}
            ANSWERS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def record(path: Path) -> Trace:
    """The answers of each rank to the questions of one topic."""
    print("recording", path.stem, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, path.name)
        program.write_text((HERE / "ask.py").read_text("utf-8") + path.read_text("utf-8"), "utf-8")
        answers = run(program)
        again = run(program)
        if again != answers:
            different = {key for rank in answers for key in answers[rank] if again[rank].get(key) != answers[rank][key]}
            raise SystemExit(f"{path.stem} is not stable: {sorted(different)}")
        return answers


if __name__ == "__main__":
    main(sys.argv[1:])

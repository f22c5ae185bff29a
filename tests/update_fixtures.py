"""The fixtures, and a script that writes what the tool makes of them.

A case is a folder under fixtures/ with ``before.py`` (or ``before.ipynb``, or ``before/``, several files of any kind),
what becomes of it in ``after.py`` (or ``after.ipynb``, ``after/``; none where nothing is written) and, in
``findings.txt``, what the report says. ``settings.toml`` holds settings other than the defaults, ``wrong.txt`` says why
the tool does not do yet what the case expects, which was then written by hand.

    python tests/update_fixtures.py [TEXT ...]

rewrites ``after`` and ``findings.txt`` of the cases whose folder's name contains TEXT, of all without one, but for
those with ``wrong.txt``. Read what git then shows as changed: an expected output that is wrong is worse than none.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from migrator.config import Settings
from migrator.engine import migrate
from migrator.result import Result

SUFFIXES = (".py", ".ipynb")
ROOT = Path(__file__).resolve().parent.parent / "fixtures"
Files = dict[str, bytes]


@dataclass(frozen=True)
class Outcome:
    """What is written, by path (empty where nothing is), and what is said."""

    written: Files
    findings: str
    result: Result


def cases() -> Iterator[Path]:
    """The folders of all cases."""
    found = {path.parent for suffix in ("", *SUFFIXES) for path in ROOT.glob(f"*/*/before{suffix}")}
    yield from sorted(found)


def files(case: Path, which: str) -> Files:
    """The files of a case ``before`` or ``after``, by the path that they have in a run."""
    folder = case / which
    if folder.is_dir():
        found = (path for path in sorted(folder.rglob("*")) if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
    single = (case / f"{which}{suffix}" for suffix in SUFFIXES)
    return {f"program{path.suffix}": path.read_bytes() for path in single if path.exists()}


def settings_of(case: Path) -> Settings:
    """The settings that a case asks for."""
    path = case / "settings.toml"
    values = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    return Settings(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}, jobs=1
    )


def run(sources: Files, settings: Settings, folder: Path) -> Outcome:
    """Put ``sources`` into ``folder``, which must be the working directory and empty, and migrate it."""
    for name, data in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    result = migrate([Path(".")], settings)
    status = {path: program.status for program in result.programs for path in program.files}
    goes = {file.path: file.after for file in result.changed if status[file.path] in ("migrated", "partial")}
    return Outcome(sources | goes if goes else {}, _text(result), result)


def _text(result: Result) -> str:
    lines = [f"program {program.status}" for program in result.programs]
    lines += [f"{file.path} {file.status}: {file.reason}" for file in result.files if file.reason]
    several = len(result.files) > 1
    for found in result.findings:
        place = f"{found.path}:{found.line}:{found.column}" if several else f"{found.line}:{found.column}"
        lines.append(f"{place} {found.rule} {found.class_}  {found.message}")
    return "".join(line + "\n" for line in lines)


def main(wanted: list[str]) -> None:
    for case in cases():
        name = case.relative_to(ROOT).as_posix()
        if (wanted and not any(text in name for text in wanted)) or (case / "wrong.txt").exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            outcome = run(files(case, "before"), settings_of(case), Path(folder))
            os.chdir(ROOT)
        shutil.rmtree(case / "after", ignore_errors=True)
        for suffix in SUFFIXES:
            (case / f"after{suffix}").unlink(missing_ok=True)
        for path, data in outcome.written.items():
            target = case / "after" / path if (case / "before").is_dir() else case / f"after{Path(path).suffix}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        (case / "findings.txt").write_text(outcome.findings, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

"""What every report needs to know besides the result, and how it shows text that nobody vetted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from migrator.result import Result

Mode = Literal["preview", "check", "patch", "write"]

UNSAFE_IN_SOURCE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class View:
    """How a result is shown; formats that machines read leave the flags aside.

    ``failures`` is false where the reader learns of files that failed by other means.
    """

    mode: Mode = "preview"
    diff: bool = True
    quiet: bool = False
    color: bool = False
    failures: bool = True


def paint(text: str, color: str, view: View) -> str:
    """``text`` in a color of the terminal, or several attributes, if the view has colors."""
    return f"\x1b[{color}m{text}\x1b[0m" if view.color and color else text


def printable(text: str) -> str:
    """A name or message on one line: whatever a terminal might act upon or cannot show is escaped."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_source(line: str) -> str:
    """A line of source as it stands, tabs too, but for control and direction-changing characters."""
    return UNSAFE_IN_SOURCE.sub(lambda found: _escaped(found[0]), line)


def held_back(result: Result) -> frozenset[str]:
    """The files that stay as they are because their program is blocked."""
    return frozenset(path for program in result.programs if program.status == "blocked" for path in program.files)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")

"""What two runs print, compared number by number: times, rates, dates, paths and addresses are passed over."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

Lines = Sequence[str]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\b(?:nan|inf)\b"
_TIMES = r"(?:ns|us|µs|ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)"
_RATES = rf"[a-zA-Z]+\s?(?:/|per )\s?{_TIMES}"
_UNITS = rf"(?:{_TIMES}|{_RATES})"
_NUMBERS = re.compile(_NUMBER, re.IGNORECASE)
_MASKED = re.compile(
    rf"""\d+%\|.*$                                         # a progress bar
    |\[?\b\d\d(?:\d\d)?[-/.]\d\d?[-/.]\d\d(?:\d\d)?(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?Z?  # a date
    |\b\d+:\d\d(?::\d\d)?(?:[.,]\d+)?\b                    # a time
    |\b0x[0-9a-fA-F]+\b                                    # an address
    |(?:\b\w+:/)?(?:[\w.~-]*/)+[\w.-]*\d[\w.-]*            # a path
    |\b\d+\.\d+\.\d+(?:[.+:]\w+)*                          # a version, or the address of a host
    |(?:{_NUMBER})\s?{_UNITS}\b                            # a time or a rate with its unit
    |{_RATES}\b(?:\s(?:on|per|over)\s(?:\d+\s)?[^\s:]+)?\W{{0,3}}(?:{_NUMBER})(?:\s?(?:\+-|\+/-|±)\s?(?:{_NUMBER}))?
    |\b(?:\w*time\w*|elapsed|took|speed|throughput|eta|pid|port)\b\W{{0,3}}(?:{_NUMBER})  # one after its name
    """,
    re.VERBOSE | re.IGNORECASE,
)
# A line of DeepSpeed's log, which goes to the standard output.
_LOGGED = re.compile(r"\[\d{4}-\d\d-\d\d [\d:,]+\] \[[A-Z]+\] \[\w+\.py:\d+:\w+\]")
_LARGEST_ALIGNMENT = 2000


@dataclass(frozen=True)
class Printed:
    """A line with numbers in it: how it reads without them, and they."""

    line: str
    words: str
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class Mismatch:
    """A line whose numbers differ, or that only one side printed (then ``numbers`` is None)."""

    original: str
    migrated: str
    numbers: tuple[str, str] | None


def mismatches(original: Lines, migrated: Lines, again: Lines | None = None) -> Iterator[Mismatch]:
    """The lines of ``migrated`` that print other numbers, but for numbers that vary between runs of the original."""
    ours, theirs = _printed(original), _printed(migrated)
    varying = _varying(ours, _printed(again)) if again is not None else {}
    for place, other in _pairs(ours, theirs):
        if place is None or other is None:
            lost = ours[place] if place is not None else None
            if place not in varying:
                yield Mismatch(
                    lost.line if lost else "nothing", "nothing" if other is None else theirs[other].line, None
                )
            continue
        for number, pair in enumerate(zip(ours[place].numbers, theirs[other].numbers, strict=True)):
            if not _is_same(*pair) and number not in varying.get(place, ()):
                yield Mismatch(ours[place].line, theirs[other].line, pair)
                break


def _printed(lines: Lines) -> list[Printed]:
    shown = [line.rstrip("\r\n").rpartition("\r")[2].strip() for line in lines if not _LOGGED.match(line)]
    masked = [(line, _MASKED.sub("…", line)) for line in shown]
    return [
        Printed(line, _NUMBERS.sub("#", text), tuple(numbers))
        for line, text in masked
        if (numbers := _NUMBERS.findall(text))
    ]


def _varying(ours: Sequence[Printed], again: Sequence[Printed]) -> dict[int | None, set[int]]:
    varying: dict[int | None, set[int]] = {}
    for place, other in _pairs(ours, again):
        if place is None or other is None:
            varying.setdefault(place, set())
            continue
        pairs = zip(ours[place].numbers, again[other].numbers, strict=True)
        numbers = {number for number, pair in enumerate(pairs) if not _is_same(*pair)}
        if numbers:
            varying[place] = numbers
    return varying


def _pairs(ours: Sequence[Printed], theirs: Sequence[Printed]) -> Iterator[tuple[int | None, int | None]]:
    """Places of lines that read alike but for their numbers; None on one side for a line that only the other has."""
    left, right = [each.words for each in ours], [each.words for each in theirs]
    if left == right or max(len(left), len(right)) > _LARGEST_ALIGNMENT:
        common = next((n for n, pair in enumerate(zip_longest(left, right)) if pair[0] != pair[1]), len(left))
        yield from zip(range(common), range(common), strict=True)
        if common < max(len(left), len(right)):
            yield common if common < len(left) else None, None if common < len(left) else common
        return
    for kind, i, j, k, n in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(range(i, j), range(k, n), strict=True)
        else:
            yield from ((place, None) for place in range(i, j))
            yield from ((None, place) for place in range(k, n))


def _is_same(first: str, second: str) -> bool:
    return first.lower() == second.lower() or float(first) == float(second)

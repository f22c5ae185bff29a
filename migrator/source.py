"""Bytes of one Python file to text and back, losing nothing."""

from __future__ import annotations

import codecs
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from migrator.notebooks.text import CellText

# They claim to be text encodings, are quadratic in the length of the file, and no Python file can be written in them.
_NOT_FOR_FILES = frozenset({"idna", "punycode"})
DATABRICKS = "# Databricks notebook source"
_LINE_END = re.compile(r"\r\n|\n|\r")
_BYTES_LINE_END = re.compile(rb"\r\n|\n|\r")


class SourceError(Exception):
    """A file that cannot be turned into text or back; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True)
class Place:
    """A line and column of a file, from 1; ``label`` says more of where that is, for a message to begin with."""

    line: int
    column: int
    label: str = ""


class Notebook(Protocol):
    """Cells that make one module."""

    @property
    def boundary(self) -> str:
        """How a comment begins, in the module's text, that begins a cell."""

    @property
    def module(self) -> CellText:
        """The text of the module, and what stands in it that is not Python."""

    def problem(self, before: str, after: str) -> str:
        """Why ``after``, the module's after edits of its code, cannot go back into the cells; empty if it can."""

    def place(self, offset: int) -> Place:
        """Where in the file ``offset`` of the module's text stands."""

    def restored(self, text: str) -> str:
        """The text of the file with the cells that ``text``, the module's after edits, is made of."""

    def readable(self, text: str) -> str:
        """``text``, the module's, as a person reads it."""


@dataclass(frozen=True)
class Source:
    """One file: ``text`` has every line ending as it was and no BOM; ``newline`` is the most common ending.

    The text of a ``notebook`` is that of the module that its cells make.
    """

    path: str
    data: bytes
    text: str
    encoding: str
    bom: bool
    newline: str
    notebook: Notebook | None = None


def decode(path: str, data: bytes) -> Source:
    """The text of a Python file, by its BOM and encoding cookie as Python reads them, or of a notebook's module.

    Raises SourceError if the bytes are not text in that encoding, or would not come back the same from ``encode``.
    """
    if b"\0" in data:
        raise SourceError(_line_at(data, data.index(b"\0")), "contains a NUL byte")
    if path.endswith(".ipynb"):
        from migrator.notebooks import ipynb

        return ipynb.decode(path, data)
    bom = data.startswith(codecs.BOM_UTF8)
    encoding = _detect(data)
    text = _to_text(data, encoding, len(codecs.BOM_UTF8) if bom else 0)
    source = Source(path, data, text, encoding, bom, newline_of(text))
    if _to_bytes(text, encoding, bom) != data:
        raise SourceError(1, f"does not survive decoding and encoding again ({encoding})")
    if text.startswith(DATABRICKS):
        from migrator.notebooks import databricks

        return databricks.decode(source)
    return source


def decode_text(path: str, data: bytes) -> Source:
    """The text of a file that is not Python: UTF-8, or else one character for each byte, whatever was meant.

    Raises SourceError where it is not text.
    """
    if b"\0" in data:
        raise SourceError(_line_at(data, data.index(b"\0")), "contains a NUL byte")
    bom = data.startswith(codecs.BOM_UTF8)
    skip = len(codecs.BOM_UTF8) if bom else 0
    try:
        text, encoding = data[skip:].decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = data[skip:].decode("latin-1"), "latin-1"
    return Source(path, data, text, encoding, bom, newline_of(text))


def encode(source: Source, text: str) -> bytes:
    """The bytes of ``text`` in the encoding of ``source``; ``encode(source, source.text) == source.data``.

    Raises SourceError if the encoding lacks a character of ``text``.
    """
    text = source.notebook.restored(text) if source.notebook is not None else text
    data = _to_bytes(text, source.encoding, source.bom)
    if _to_text(data, source.encoding, len(codecs.BOM_UTF8) if source.bom else 0) != text:
        raise SourceError(1, f"does not survive encoding and decoding again ({source.encoding})")
    return data


def _detect(data: bytes) -> str:
    lines = _first_lines(data)
    try:
        encoding = tokenize.detect_encoding(lambda: next(lines, b""))[0]
    except SyntaxError as error:
        raise _explain(data, error) from error
    except (ValueError, OSError) as error:
        raise SourceError(1, f"unknown encoding: {error}") from error
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    if codecs.lookup(encoding).name in _NOT_FOR_FILES:
        raise SourceError(_cookie_line(data), f"not a text encoding: {encoding}")
    return encoding


def _first_lines(data: bytes) -> Iterator[bytes]:
    start = 0
    for _ in range(2):
        end = _BYTES_LINE_END.search(data, start)
        yield data[start : end.end() if end else len(data)]
        start = end.end() if end else len(data)


def _explain(data: bytes, error: SyntaxError) -> SourceError:
    message = str(error)
    if message.startswith("unknown encoding"):
        return SourceError(_cookie_line(data), message[:80])
    if message.startswith("encoding problem"):
        return SourceError(_cookie_line(data), "declares another encoding than its UTF-8 byte order mark")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as cause:
        return _undecodable(data, "utf-8", cause, 0)
    return SourceError(1, message)


def _cookie_line(data: bytes) -> int:
    first = next(_first_lines(data))
    return 1 if re.search(rb"coding[:=]", first) else 2


def _to_text(data: bytes, encoding: str, skip: int) -> str:
    try:
        text = data[skip:].decode(encoding)
        text.encode("utf-8")
    except LookupError as error:
        raise SourceError(_cookie_line(data), f"not a text encoding: {encoding}") from error
    except UnicodeDecodeError as error:
        raise _undecodable(data, encoding, error, skip) from error
    except ValueError as error:
        raise SourceError(1, f"not valid {encoding}: {error}") from error
    if "\0" in text:
        raise SourceError(_line_of(text, text.index("\0")), "contains a NUL byte")
    return text


def _undecodable(data: bytes, encoding: str, error: UnicodeDecodeError, skip: int) -> SourceError:
    offset = min(skip + error.start, len(data) - 1)
    return SourceError(_line_at(data, offset), f"not valid {encoding}: byte 0x{data[offset]:02x} at offset {offset}")


def _to_bytes(text: str, encoding: str, bom: bool) -> bytes:
    try:
        return (codecs.BOM_UTF8 if bom else b"") + text.encode(encoding)
    except UnicodeEncodeError as error:
        char = f"U+{ord(text[error.start]):04X}"
        raise SourceError(_line_of(text, error.start), f"cannot be written as {encoding}: {char}") from error
    except (LookupError, ValueError) as error:
        raise SourceError(1, f"cannot be written as {encoding}: {error}") from error


def _line_at(data: bytes, offset: int) -> int:
    return len(_BYTES_LINE_END.findall(data[:offset])) + 1


def _line_of(text: str, index: int) -> int:
    return len(_LINE_END.findall(text[:index])) + 1


def newline_of(text: str) -> str:
    """The most common line ending."""
    pairs = text.count("\r\n")
    counts = {"\n": text.count("\n") - pairs, "\r\n": pairs, "\r": text.count("\r") - pairs}
    most = max(counts.values())
    first = next((end for end in _LINE_END.findall(text) if counts[end] == most), "\n")
    return first

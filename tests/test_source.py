from __future__ import annotations

import codecs
from contextlib import suppress

import pytest

from migrator.source import SourceError, decode, encode


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        (b"", "utf-8", ""),
        ("x = 'é'\n".encode(), "utf-8", "x = 'é'\n"),
        (b"# coding: latin-1\nx = '\xe9'\r\n", "iso-8859-1", "# coding: latin-1\nx = 'é'\r\n"),
        (b"#!/bin/python\r# coding: latin-1\r'\xe9'\r", "iso-8859-1", "#!/bin/python\r# coding: latin-1\r'é'\r"),
        (b"#\r#\r# coding: ascii\r'\xc3\xa9'", "utf-8", "#\r#\r# coding: ascii\r'é'"),
        ("# coding: cp1252\n'€'\n".encode("cp1252"), "cp1252", "# coding: cp1252\n'€'\n"),
        ("# coding: euc-jp\n'日本'\n".encode("euc-jp"), "euc-jp", "# coding: euc-jp\n'日本'\n"),
        (b"a\n\x0cb\x0b\x1c\x85"[:-1] + "\u2028\x85".encode(), "utf-8", "a\n\x0cb\x0b\x1c\u2028\x85"),
    ],
)
def test_round_trip(data: bytes, encoding: str, text: str) -> None:
    source = decode("x.py", data)
    assert (source.encoding, source.text, source.bom, source.data) == (encoding, text, False, data)
    assert encode(source, source.text) == data


def test_bom_is_no_text_and_comes_back_once() -> None:
    source = decode("x.py", codecs.BOM_UTF8 + b"x = 1\n")
    assert (source.bom, source.text, source.encoding) == (True, "x = 1\n", "utf-8")
    assert encode(source, "y\n") == codecs.BOM_UTF8 + b"y\n"


@pytest.mark.parametrize(
    ("text", "newline"),
    [
        ("", "\n"),
        ("x", "\n"),
        ("a\nb\n", "\n"),
        ("a\r\nb\r\n", "\r\n"),
        ("a\rb\r", "\r"),
        ("a\nb\r\nc\r\n", "\r\n"),
        ("a\r\nb\n", "\r\n"),
        ("a\nb\r\n", "\n"),
        ("a\rb\n", "\r"),
    ],
)
def test_newline_is_the_most_common_then_the_first(text: str, newline: str) -> None:
    assert decode("x.py", text.encode()).newline == newline


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"# a text\nx = '\xe9'\n", 2, "not valid utf-8: byte 0xe9 at offset 14"),
        (b"a\r\nb\rc\n\xff", 4, "not valid utf-8: byte 0xff at offset 7"),
        (codecs.BOM_UTF8 + b"\n\n\n\xff", 4, "not valid utf-8: byte 0xff at offset 6"),
        (b"# coding: ascii\n\n'\xc3\xa9'", 3, "not valid ascii: byte 0xc3 at offset 18"),
        (b"# coding: foo\n", 1, "unknown encoding: foo"),
        (b"\n# coding: foo\n", 2, "unknown encoding: foo"),
        (b"x\n\ny\0\n", 3, "contains a NUL byte"),
        (b"# coding: utf-7\n'+AAA-'\n", 2, "contains a NUL byte"),
        ("x\n".encode("utf-16"), 1, "contains a NUL byte"),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", 1, "declares another encoding than its UTF-8 byte order mark"),
        (b"\n# coding: rot13\n", 2, "not a text encoding: rot13"),
        (b"# coding: zip\n", 1, "not a text encoding: zip"),
        (b"# coding: hex\n", 1, "not a text encoding: hex"),
        (b"# coding: idna\n", 1, "not a text encoding: idna"),
        (b"# coding: punycode\n", 1, "not a text encoding: punycode"),
        (b"# coding: unicode_escape\n", 1, "does not survive decoding and encoding again (unicode_escape)"),
        (b"# coding: utf-7\n'+AOk-'\n", 1, "does not survive decoding and encoding again (utf-7)"),
    ],
)
def test_refuse(data: bytes, line: int, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        decode("x.py", data)
    assert (caught.value.line, caught.value.reason) == (line, reason)


@pytest.mark.parametrize("name", ["undefined", "utf-16", "utf-32-le", "mbcs", "oem", "x" * 5000, "hz", "..", "-"])
@pytest.mark.parametrize("body", [b"x = 1\n", b"'+2AA-'\n", b"~{\n"])
def test_odd_cookie_is_refused_or_round_trips(name: str, body: bytes) -> None:
    data = b"# coding: " + name.encode() + b"\n" + body
    with suppress(SourceError):
        source = decode("x.py", data)
        assert encode(source, source.text) == data


def test_lone_surrogate_is_refused() -> None:
    with pytest.raises(SourceError, match="not valid utf-7"):
        decode("x.py", b"# coding: utf-7\n'+2AA-'\n")


def test_character_that_the_encoding_lacks() -> None:
    source = decode("x.py", b"# coding: latin-1\n")
    with pytest.raises(SourceError) as caught:
        encode(source, "# coding: latin-1\n\nx = '€'\n")
    assert (caught.value.line, caught.value.reason) == (3, "cannot be written as iso-8859-1: U+20AC")

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ottla.protocol.java_properties import dumps, loads

WRITTEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("line", ["a=b", "a:b", "a b", "  a = b", "\ta\t:\tb", "a=b\r", "a=b\r\n", "a=c\na=b"])
def test_an_equals_sign_a_colon_or_a_blank_is_between_a_key_and_its_value(line: str) -> None:
    assert loads(line) == {"a": "b"}


def test_blank_lines_and_comments_say_nothing() -> None:
    assert loads("\n  \n# a=b\n ! a=b\nc=d # e\n") == {"c": "d # e"}


def test_a_value_keeps_its_trailing_blanks_and_may_be_empty() -> None:
    assert loads("a=b \nc=\nd") == {"a": "b ", "c": "", "d": ""}


def test_a_backslash_at_the_end_joins_the_next_line_without_its_indentation() -> None:
    assert loads("a=1,\\\n    2,\\\r\n\t3\nb=4\\\\\nc=5") == {"a": "1,2,3", "b": "4\\", "c": "5"}


def test_what_follows_a_joined_line_is_no_comment() -> None:
    assert loads("\\\n#a=b") == {"#a": "b"}


def test_escapes_mean_what_they_mean_in_java() -> None:
    assert loads(r"a\=\:\ b=\t\n\r\f\\\q\u00e9\ud83d\ude00") == {"a=: b": "\t\n\r\f\\qé😀"}


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12g4", r"a\u=b"])
def test_a_unicode_escape_without_four_digits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="four hexadecimal digits"):
        loads(text)


def test_a_file_is_written_as_java_writes_it() -> None:
    text = dumps({"a b": " c: d ", "é": "=#!\\\t😀"}, WRITTEN)
    assert text.split("\n") == [
        "#",
        "#Fri Jan 02 03:04:05 UTC 2026",
        r"a\ b=\ c\: d ",
        r"\u00E9=\=\#\!\\\t\uD83D\uDE00",
        "",
    ]

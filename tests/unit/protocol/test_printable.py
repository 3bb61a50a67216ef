from __future__ import annotations

import pytest

from ottla.protocol.printable import printable, printable_name, reason_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", r"\u001b]0;owned\u0007"),
        ("\x9b2J\x7f\r", r"\u009b2J\u007f\u000d"),
        ("\u202egnp.exe\u2066\u200f", r"\u202egnp.exe\u2066\u200f"),
        ("\ud800\uffff", r"\ud800\uffff"),
        ("a\tb\nc", "a\tb\nc"),
        ("Grüße, 世界 🚀", "Grüße, 世界 🚀"),
    ],
)
def test_terminal_control_characters_are_escaped_and_others_unchanged(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_printable_name_is_a_single_line() -> None:
    assert printable_name("a\nb\tc\x1b") == r"a\nb\tc\u001b"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(2, "No such file or directory", "/x"), "No such file or directory"),
        (ConnectionError("localhost:1 closed the connection"), "localhost:1 closed the connection"),
        (ValueError("not a port"), "not a port"),
    ],
)
def test_reason_of_an_os_error_has_no_number_and_no_file_name(error: Exception, text: str) -> None:
    assert reason_of(error) == text

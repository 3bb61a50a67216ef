"""Escapes text for logs, terminals and reports.

Text from a peer is escaped before it is printed, so that it cannot control a terminal, hide other text, or break a report.
"""

from __future__ import annotations

import re
from typing import Final

_UNSAFE: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff\\ufffe\\uffff]"
)
"""Control characters except tab and newline, marks that change the direction of text, and characters that UTF-8 or XML cannot contain."""


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def printable(text: str) -> str:
    """Replace control characters (except tab and newline) and other characters that are unsafe in a terminal or report by `\\uXXXX`."""
    return _UNSAFE.sub(_escaped, text)


def printable_name(name: str) -> str:
    """Escape a name as `printable` does, and its tabs and newlines, because a name with a newline would look like two names."""
    return printable(name).replace("\n", "\\n").replace("\t", "\\t")


def reason_of(error: BaseException) -> str:
    """Return an error's text. For an OSError it is only the reason, such as `No such file or directory`, without number and file name."""
    return getattr(error, "strerror", None) or str(error)

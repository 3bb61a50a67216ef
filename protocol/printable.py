"""Text that a peer chose, made safe to print: it cannot command a terminal, hide what follows, or break a report."""

from __future__ import annotations

import re
from typing import Final

_UNSAFE: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff\\ufffe\\uffff]"
)
"""Control characters but for tab and newline, marks that turn the direction of a text around, and what no encoding or no XML has."""


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def printable(text: str) -> str:
    """Return a text of several lines with escapes in place of its unsafe characters."""
    return _UNSAFE.sub(_escaped, text)


def printable_name(name: str) -> str:
    """Return a name on one line: a newline in it would let it pass for two."""
    return printable(name).replace("\n", "\\n").replace("\t", "\\t")

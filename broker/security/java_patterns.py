"""Regular expressions of Java's, and what its `Matcher` puts in the place of what they find, for the rules that make principals of names.

Rules that hold inside:
- An expression is compiled by Python: one that it cannot compile, or that means something else there (`[a-z&&[^b]]`), is refused. As with
  Java `\\w`, `\\d` and `(?i)` are about ASCII.
- A replacement that Java cannot make is refused, too.

Source: JDK java.util.regex.Matcher.appendReplacement.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

_PART: Final = re.compile(r"\\(?P<escaped>.)|\$\{(?P<name>[a-zA-Z][a-zA-Z0-9]*)\}|\$(?P<number>[0-9])|(?P<text>[^\\$])", re.DOTALL)
_DIGITS: Final = frozenset("0123456789")
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")

Parts = Sequence[str | int]
"""Of a replacement: texts, and numbers of groups."""


def compiled(expression: str) -> re.Pattern[str]:
    """Raises ValueError, re.error or Warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return re.compile(_NAMED_GROUP.sub("(?P<", expression), re.ASCII)


def replacement_parts(replacement: str, pattern: re.Pattern[str]) -> Parts:
    """As Java reads them. Raises ValueError."""
    return list(_parts(replacement, pattern))


def filled(parts: Parts, match: re.Match[str]) -> str:
    """The replacement of one match."""
    return "".join(part if isinstance(part, str) else match[part] or "" for part in parts)


def _parts(replacement: str, pattern: re.Pattern[str]) -> Iterator[str | int]:
    at = 0
    while at < len(replacement):
        match = _PART.match(replacement, at)
        if match is None:
            raise ValueError("Illegal group reference")
        at = match.end()
        if (name := match["name"]) is not None:
            yield pattern.groupindex[name] if name in pattern.groupindex else _no_group(name)
        elif (first := match["number"]) is not None:
            number = int(first)
            while replacement[at : at + 1] in _DIGITS and 10 * number + int(replacement[at]) <= pattern.groups:
                number, at = 10 * number + int(replacement[at]), at + 1
            yield number if number <= pattern.groups else _no_group(first)
        else:
            yield match["escaped"] or match["text"]


def _no_group(name: str) -> NoReturn:
    raise ValueError(f"No group {name}")

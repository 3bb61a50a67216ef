r"""Translates Java's regular expressions and replacements to Python's, for the rules that map Kerberos and certificate names to user names.

Invariants:
* Python compiles the expressions. An expression that Python cannot compile, or interprets differently (`[a-z&&[^b]]`), is rejected. As in
  Java, `\w`, `\d` and `(?i)` refer to ASCII.
* A replacement that Java rejects is rejected.

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
"""The parts of a regular expression's replacement: literal texts, and the numbers of the groups whose matched text is inserted."""


def compiled(expression: str) -> re.Pattern[str]:
    """Return the compiled Python form of a Java regular expression. Raises ValueError, re.error or Warning for an expression that Python
    cannot compile or would interpret differently.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return re.compile(_NAMED_GROUP.sub("(?P<", expression), re.ASCII)


def replacement_parts(replacement: str, pattern: re.Pattern[str]) -> Parts:
    """Split the replacement of a principal mapping rule, in Java's syntax (`$1`, `${name}`), into literal texts and the numbers of groups
    of `pattern`. Raises ValueError for a group that `pattern` does not have, or other invalid syntax.
    """
    return list(_parts(replacement, pattern))


def filled(parts: Parts, match: re.Match[str]) -> str:
    """Return the text that replaces `match`. It consists of `parts` (from `replacement_parts`), with each group number replaced by the text
    that the group matched, or by an empty text if the group did not match."""
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

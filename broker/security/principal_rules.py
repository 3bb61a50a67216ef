"""`ssl.principal.mapping.rules`: what becomes of the name in a client's certificate.

Rules that hold inside:
- The first rule whose expression matches the whole name is applied; where none does, nobody comes in.
- An expression is Java's, and is compiled by Python: one that it cannot compile, or that means something else there (`[a-z&&[^b]]`), is
  refused at the start. As with Java `\\w`, `\\d` and `(?i)` are about ASCII. `$n` of a group that there is not is text.

Source: KAFKA SslPrincipalMapper.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Final, NamedTuple

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")


class NoRule(ValueError):
    """No rule is for this name."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        found = self.pattern.sub(self._filled, name)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found

    def _filled(self, match: re.Match[str]) -> str:
        out, text, at = "", self.replacement, 0
        while at < len(text):
            char, at = text[at], at + 1
            if char == "\\" and at < len(text):
                out, at = out + text[at], at + 1
            elif char == "$" and text[at : at + 1].isdecimal() and int(text[at]) <= match.re.groups:
                group, at = int(text[at]), at + 1
                while text[at : at + 1].isdecimal() and group * 10 + int(text[at]) <= match.re.groups:
                    group, at = group * 10 + int(text[at]), at + 1
                out += match[group] or ""
            else:
                out += char
        return out


class PrincipalRules:
    """Made of the setting's text. Raises ValueError with the rule that is none."""

    def __init__(self, text: str) -> None:
        self._rules: Sequence[_Rule] = [rule for found in _SPLITTER.finditer(text.strip()) if (rule := _parsed(found[1])) is not None]

    def name_for(self, name: str) -> str:
        """The principal's name. Raises NoRule."""
        for rule in self._rules:
            if (found := rule.apply(name)) is not None:
                return found
        raise NoRule(f"No rules apply to {name}")


def _parsed(text: str) -> _Rule | None:
    """None for an empty rule."""
    match = _PARSER.match(text)
    if match is None:
        raise ValueError(f"Invalid rule: {text}")
    if match.end() != len(text):
        raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match[1] is not None:
        return _Rule(None, "", "")
    if match[2] is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pattern = re.compile(_NAMED_GROUP.sub("(?P<", match[2]), re.ASCII)
        return _Rule(pattern, match[4], match[6])
    except (re.error, ValueError, Warning) as error:
        raise ValueError(f"Invalid rule: `{text}`: {error}") from error

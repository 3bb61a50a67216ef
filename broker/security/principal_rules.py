"""`ssl.principal.mapping.rules`: what becomes of the name in a client's certificate.

Rules that hold inside:
- The first rule whose expression matches the whole name is applied; where none does, nobody comes in.
- An expression is Java's, and is compiled by Python: one that it cannot compile, or that means something else there (`[a-z&&[^b]]`), is
  refused at the start. As with Java `\\w`, `\\d` and `(?i)` are about ASCII.
- `$n` of a group that there is not is text, where there are others. Any other replacement that Java cannot make lets nobody in at Kafka,
  and is refused at the start, too.

Source: KAFKA SslPrincipalMapper.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, NoReturn

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_PART: Final = re.compile(r"\\(?P<escaped>.)|\$\{(?P<name>[a-zA-Z][a-zA-Z0-9]*)\}|\$(?P<number>[0-9])|(?P<text>[^\\$])", re.DOTALL)
_DIGITS: Final = frozenset("0123456789")
_NAMED_GROUP: Final = re.compile(r"\(\?<(?=[A-Za-z])")


class NoRule(ValueError):
    """No rule is for this name."""


class _Rule(NamedTuple):
    """`parts` of a replacement are texts and numbers of groups."""

    pattern: re.Pattern[str] | None
    parts: Sequence[str | int]
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        found = self.pattern.sub(self._filled, name)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found

    def _filled(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.parts)


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
        return _Rule(None, (), "")
    if match[2] is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pattern = re.compile(_NAMED_GROUP.sub("(?P<", match[2]), re.ASCII)
        return _Rule(pattern, list(_parts(_with_texts(match[4], pattern.groups), pattern)), match[6])
    except (re.error, ValueError, Warning) as error:
        raise ValueError(f"Invalid rule: `{text}`: {error}") from error


def _with_texts(replacement: str, groups: int) -> str:
    """Escaped are numbers of groups that there are not; by the places that they had before the first of them was, as in Kafka."""
    found = replacement
    for match in _REFERENCE.finditer(replacement) if groups else ():
        number = int(match[1])
        while number > groups and number >= 10:
            number //= 10
        if number > groups and not match[1].startswith("0"):
            found = f"{found[: match.start()]}\\{found[match.start() :]}"
    return found


def _parts(replacement: str, pattern: re.Pattern[str]) -> Iterator[str | int]:
    """As Java's `Matcher.appendReplacement` reads them. Raises ValueError."""
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

"""Rules that map the subject name of a client's certificate to a user name (`ssl.principal.mapping.rules`).

Invariants:
* The first rule whose expression matches the whole name is applied. If none matches, the connection is rejected.
* Expressions are Java's (`java_patterns`). The broker does not start with an expression that it does not support.
* In a replacement, `$n` for a missing group is literal text if the expression has groups. The broker does not start with any other
  replacement that Java rejects; Kafka starts and rejects every client.

Source: KAFKA SslPrincipalMapper.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.security.java_patterns import Parts, compiled, filled, replacement_parts

_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\$([0-9]+)")


class NoRule(ValueError):
    """Raised if no mapping rule matches the subject name of a client's certificate."""


class _Rule(NamedTuple):
    """One mapping rule for subject names of certificates. `pattern` is None for DEFAULT, which keeps the whole name. `case` says how the
    result is converted: `L` to lower case, `U` to upper case, otherwise not."""

    pattern: re.Pattern[str] | None
    parts: Parts
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        found = self.pattern.sub(partial(filled, self.parts), name)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found


class PrincipalRules:
    """Maps subject names of certificates to user names, by the rules of `ssl.principal.mapping.rules`. The constructor raises ValueError,
    which names the invalid rule."""

    def __init__(self, text: str) -> None:
        self._rules: Sequence[_Rule] = [rule for found in _SPLITTER.finditer(text.strip()) if (rule := _parsed(found[1])) is not None]

    def name_for(self, name: str) -> str:
        """Return the user name to which the first matching rule maps the subject name `name`. Raises NoRule if none matches."""
        for rule in self._rules:
            if (found := rule.apply(name)) is not None:
                return found
        raise NoRule(f"No rules apply to {name}")


def _parsed(text: str) -> _Rule | None:
    """Parse one rule of `ssl.principal.mapping.rules`; return None for an empty rule. Raises ValueError for an invalid one."""
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
        pattern = compiled(match[2])
        return _Rule(pattern, replacement_parts(_with_texts(match[4], pattern.groups), pattern), match[6])
    except (re.error, ValueError, Warning) as error:
        raise ValueError(f"Invalid rule: `{text}`: {error}") from error


def _with_texts(replacement: str, groups: int) -> str:
    """Escape the references in a replacement (`$n`) to groups that the expression does not have, so that they are literal text.

    As in Kafka, each escape is inserted at the position of the reference in the original text. After the first escape this position is
    wrong; the error is copied on purpose.
    """
    found = replacement
    for match in _REFERENCE.finditer(replacement) if groups else ():
        number = int(match[1])
        while number > groups and number >= 10:
            number //= 10
        if number > groups and not match[1].startswith("0"):
            found = f"{found[: match.start()]}\\{found[match.start() :]}"
    return found

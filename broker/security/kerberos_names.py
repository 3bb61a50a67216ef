"""Rules that map a Kerberos principal, such as `ann/host@REALM`, to a user name (`sasl.kerberos.principal.to.local.rules`).

Invariants:
* The first matching rule is applied. DEFAULT matches principals of this machine's realm; `RULE:[n:format](match)s/from/to/g` matches
  principals of n components whose formatted text matches. The result must not contain `/` or `@`.
* Expressions and replacements are Java's (`java_patterns`). The broker does not start with a rule that is invalid or can never produce a
  name. Kafka accepts some rules that never produce a name, and then rejects every client.

Source: KAFKA KerberosName, KerberosRule, KerberosShortNamer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.security.java_patterns import Parts, compiled, filled, replacement_parts

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(r"(DEFAULT)|RULE:\[([0-9]*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?")
_PARAMETER: Final = re.compile(r"([^$]*)(?:\$([0-9]*))?")
_NOT_SIMPLE: Final = re.compile(r"[/@]")
_NUMBER_MAX: Final = 2**31 - 1
_COMPONENTS: Final = frozenset({1, 2})
"""The possible numbers of components of a Kerberos principal, not counting the realm. A mapping rule for any other number never matches."""


class NoShortName(ValueError):
    """No rule maps a client's Kerberos principal to a user name."""


class KerberosName(NamedTuple):
    """The parts of a Kerberos principal `service/host@realm`; `host` may be None. If the text has no realm, the whole text is `service`,
    and the other fields are None."""

    service: str
    host: str | None
    realm: str | None

    @classmethod
    def parse(cls, principal: str) -> KerberosName:
        """Parse a Kerberos principal. Raises ValueError if the text contains an `@` but is no valid Kerberos principal."""
        match = _NAME.fullmatch(principal)
        if match is not None:
            return cls(match[1], match[2], match[3])
        if "@" in principal:
            raise ValueError(f"Malformed Kerberos name: {principal}")
        return cls(principal, None, None)


class _Substitution(NamedTuple):
    pattern: re.Pattern[str]
    parts: Parts
    at_most: int


class _Rule(NamedTuple):
    """One mapping rule for Kerberos principals with `components` components; for the rule DEFAULT, `components` is None. `text` is the rule
    as configured."""

    text: str
    components: int | None
    format: Parts = ()
    match: re.Pattern[str] | None = None
    substitution: _Substitution | None = None
    case: str | None = None

    def apply(self, parts: Sequence[str], default_realm: str) -> str | None:
        """Return the user name to which the rule maps a principal, or None if the rule does not match. `parts` are the principal's realm
        and its components. Raises NoShortName if the user name would contain `/` or `@`.
        """
        if self.components is None:
            found = parts[1] if parts[0] == default_realm else None
        else:
            found = self._made(parts) if len(parts) - 1 == self.components else None
        if found is not None and _NOT_SIMPLE.search(found):
            raise NoShortName(f"Non-simple name {found} after auth_to_local rule {self.text}")
        if found is None or self.case is None:
            return found
        return found.lower() if self.case == "L" else found.upper()

    def _made(self, parts: Sequence[str]) -> str | None:
        base = "".join(each if isinstance(each, str) else parts[each] for each in self.format)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.substitution is None:
            return base
        pattern, replacement, at_most = self.substitution
        return pattern.sub(partial(filled, replacement), base, count=at_most)


class ShortNames:
    """Maps Kerberos principals to user names, by the rules of `sasl.kerberos.principal.to.local.rules`. The constructor raises ValueError,
    which names the invalid rule."""

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        self._rules, self._default_realm = [_parsed(text) for text in rules], default_realm

    def of(self, principal: str) -> str:
        """Return the user name to which the first matching rule maps the Kerberos principal. Raises NoShortName if no rule matches, or
        ValueError for an invalid principal."""
        name = KerberosName.parse(principal)
        if name.realm is None:
            return name.service
        parts = [name.realm, name.service] if name.host is None else [name.realm, name.service, name.host]
        for rule in self._rules:
            if (found := rule.apply(parts, self._default_realm)) is not None:
                return found
        raise NoShortName(f"No rules apply to {principal}, rules [{', '.join(rule.text for rule in self._rules)}]")


def _parsed(text: str) -> _Rule:
    match = _RULE.match(text)
    if match is None:
        raise ValueError(f"Invalid rule: {text}")
    if match.end() != len(text):
        raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match[1] is not None:
        return _Rule(text, None)
    try:
        components = _number(match[2])
        wanted = None if match[4] is None else compiled(match[4])
        substitution = None
        if match[5] is not None:
            pattern = compiled(match[5])
            substitution = _Substitution(pattern, replacement_parts(match[6], pattern), 0 if match[7] else 1)
        return _Rule(text, components, _format(match[3], components), wanted, substitution, match[8])
    except (re.error, ValueError, Warning) as error:
        raise ValueError(f"Invalid rule: `{text}`: {error}") from error


def _format(text: str, components: int) -> Parts:
    """Parse the format of a mapping rule, such as `$1@$0`, to literal texts and numbers of a principal's components (0 is the realm).
    Raises ValueError if the format has a number above `components`."""
    found: list[str | int] = []
    for match in _PARAMETER.finditer(text) if components in _COMPONENTS else ():
        found.append(match[1])
        if match[2] is not None:
            index = _number(match[2])
            if index > components:
                raise ValueError(f"index {index} from {text} is outside of the valid range 0 to {components}")
            found.append(index)
    return found


def _number(digits: str) -> int:
    if not digits or len(digits.lstrip("0")) > len(str(_NUMBER_MAX)) or int(digits) > _NUMBER_MAX:
        raise ValueError(f'For input string: "{digits}"')
    return int(digits)

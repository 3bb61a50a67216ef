"""Parser of JAAS configuration: `Module flag name="value" …;`, which is the value of a setting or a section of a JAAS file.

Invariants:
* Tokens are those of Java's StreamTokenizer. Text that Kafka rejects (an unquoted value that begins with a digit, or an unquoted slash,
  which begins a comment) is rejected here with Kafka's message.
* No error message contains a value, because it may be a password.

Source: KAFKA JaasConfig, JaasContext; JDK sun.security.provider.ConfigFile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_TOKEN: Final = re.compile(
    r"""
      (?P<skip> [\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /[^\n]* )
    | (?P<number> -?(?:\d[\d.]*|\.[\d.]+) )
    | (?P<word> [A-Za-z_$*\u00a0-\U0010ffff][\w$.*\u00a0-\U0010ffff-]* )
    | (?P<quoted> "(?:\\.|[^"\\\n])*(?:"|(?=\n)|\Z) | '(?:\\.|[^'\\\n])*(?:'|(?=\n)|\Z) )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)


class JaasError(ValueError):
    """An invalid JAAS configuration. The text names the problem without any values, because they may be passwords."""


class LoginModule(NamedTuple):
    """One login module of a JAAS configuration: its Java class and its options."""

    name: str
    options: Mapping[str, str]


class _Token(NamedTuple):
    kind: str
    text: str | None
    """The token's text; None for a number, as in Java's StreamTokenizer."""


def login_modules(text: str) -> list[LoginModule]:
    """Return the login modules in the value of a setting `sasl.jaas.config`. Raises JaasError if the value is invalid or has no login
    module."""
    tokens = _tokens(text)
    found = []
    for token in tokens:
        if token.kind == "end":
            break
        found.append(_entry(token, tokens))
    if not found:
        raise JaasError("Login module not specified in JAAS config")
    return found


def sections(text: str) -> dict[str, list[LoginModule]]:
    """Return the login modules in the text of a JAAS file, by section name. Raises JaasError if the text is invalid."""
    tokens = _tokens(text)
    found: dict[str, list[LoginModule]] = {}
    for name in tokens:
        if name.kind == "end":
            break
        if name.text is None or next(tokens) != _Token("sign", "{"):
            raise JaasError("a section of a JAAS file begins with its name and {")
        entries = found.setdefault(name.text, [])
        for token in tokens:
            if token == _Token("sign", "}"):
                break
            if token.kind == "end":
                raise JaasError(f"the section {name.text} of a JAAS file is not closed with }}")
            entries.append(_entry(token, tokens))
        if next(tokens) != _Token("sign", ";"):
            raise JaasError(f"the section {name.text} of a JAAS file does not end with a brace and a semicolon")
    return found


def _entry(first: _Token, tokens: Iterator[_Token]) -> LoginModule:
    flag = next(tokens)
    if flag.kind == "end":
        raise JaasError("Login module control flag not specified in JAAS config")
    if flag.text is None:
        raise JaasError("Login module control flag is not available in the JAAS config")
    if flag.text.upper() not in _FLAGS:
        raise JaasError(f"Invalid login module control flag '{flag.text}' in JAAS config")
    options: dict[str, str] = {}
    for key in tokens:
        if key == _Token("sign", ";"):
            return LoginModule(first.text or "", options)
        if key.kind == "end":
            break
        equals = next(tokens)
        value = next(tokens) if equals == _Token("sign", "=") else None
        if value is None or value.kind in {"end", "number", "sign"} or value.text is None:
            is_key = equals == _Token("sign", "=") or not options  # otherwise the text may be the rest of a password that contains a space
            what = f"key '{key.text}'" if is_key else "a key"
            raise JaasError(f"Value not specified for {what} in JAAS config")
        options[key.text or ""] = value.text
    raise JaasError("JAAS config entry not terminated by semi-colon")


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "number":
            yield _Token(kind, None)
        elif kind == "quoted":
            body = match[0][1:]
            yield _Token(kind, _ESCAPE.sub(_unescaped, body[:-1] if body.endswith(match[0][0]) else body))
        elif kind in {"word", "sign"}:
            yield _Token(kind, match[0])
    while True:
        yield _Token("end", None)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)


class LoginFile:
    """The JAAS file that the Java system property `java.security.auth.login.config` names in Kafka. It is read when the first listener
    needs it."""

    def __init__(self, path: str | None, read: Callable[[str], str]) -> None:
        self._path, self._read = path, read
        self._sections: dict[str, list[LoginModule]] | None = None

    def entries(self, listener: str) -> list[LoginModule]:
        """Return the login modules of a listener: those of the section `<listener>.KafkaServer` or, if it does not exist, of `KafkaServer`.
        Raises JaasError if neither section exists or the file is invalid, OSError if the file cannot be read."""
        if self._sections is None:
            self._sections = {} if self._path is None else sections(self._read(self._path))
        own = f"{listener.lower()}.KafkaServer"
        for name in (own, "KafkaServer"):
            if name in self._sections:
                return self._sections[name]
        file = self._path or "not set"
        raise JaasError(
            f"Could not find a 'KafkaServer' or '{own}' entry in the JAAS configuration. "
            f"System property 'java.security.auth.login.config' is {file}"
        )

"""Parser of the argument `--add-scram` of `ottla format`, which creates SCRAM users of a new cluster. The format is that of `kafka-storage
format`: `SCRAM-SHA-256=[name=alice,password=secret,iterations=8192]`, or with base64 `salt` and `saltedpassword` instead of `password`.

Rule: no error message contains a password, a salt or a part of one. Source: KAFKA ScramParser.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

from ottla.broker.security.scram import SCRAM_KINDS, Credential, ScramKind, credential_of, salted_password

_SALT_BYTES: Final = 24
_ITERATIONS: Final = 4096


def parsed_scram(argument: str, random_bytes: Callable[[int], bytes]) -> tuple[str, ScramKind, Credential]:
    """Parse one `--add-scram` argument, and return its user, SCRAM mechanism and credential. `random_bytes(n)` returns n random bytes; it
    makes a salt if the argument has none. Raises ValueError for an invalid argument."""
    name, equals, text = argument.strip().partition("=")
    if not equals:
        raise ValueError("Failed to find equals sign in SCRAM argument")
    kind = SCRAM_KINDS.get(name)
    if kind is None:
        raise ValueError(f"The add-scram mechanism {name} is not supported.")
    if not (text.startswith("[") and text.endswith("]")):
        raise ValueError("Expected configuration string to start with [ and to end with ]")
    given = dict(map(_component, text[1:-1].split(",")))
    user = given.pop("name", None)
    if user is None:
        raise ValueError("You must supply 'name' to add-scram")
    salt_text, iterations = given.pop("salt", None), _number(given.pop("iterations", str(_ITERATIONS)))
    password, salted_text = given.pop("password", None), given.pop("saltedpassword", None)
    if given:
        raise ValueError(f"Unknown SCRAM configurations: {', '.join(sorted(given))}")
    if password is None and salted_text is None:
        raise ValueError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password is None and salt_text is None:
        raise ValueError("You must supply 'salt' with 'saltedpassword' to add-scram")
    if iterations < kind.min_iterations:
        raise ValueError(f"The 'iterations' value must be >= {kind.min_iterations} for add-scram using {kind.name}")
    if iterations > kind.max_iterations:
        raise ValueError(f"The 'iterations' value must be <= {kind.max_iterations} for add-scram using {kind.name}")
    salt = random_bytes(_SALT_BYTES) if salt_text is None else _decoded("salt", salt_text)
    salted = _decoded("saltedPassword", salted_text or "") if password is None else salted_password(kind, password, salt, iterations)
    return user, kind, credential_of(kind, salted, salt, iterations)


def _component(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError("No equals sign found in a SCRAM component")
    quoted = len(value) >= 2 and value.startswith('"') and value.endswith('"')
    return name, value[1:-1] if quoted else value


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("Failed to parse iterations count") from None


def _decoded(what: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(f"Failed to decode given {what}") from None

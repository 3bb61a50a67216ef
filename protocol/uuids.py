"""UUIDs as Kafka writes and generates them (Kafka's class `Uuid`): the ids of topics, directories, clusters and processes.

Invariants:
- A UUID is 16 raw bytes; its text is 22 characters of base64url without padding.
- A random UUID is of version 4. It is never one of Kafka's reserved UUIDs (the first hundred numbers), and its text never starts with `-`,
  so that tools do not take it for an option.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

_RESERVED_BELOW: Final = 100
_DASH: Final = 62
"""The 6-bit value that base64url writes as `-`."""


def encode_uuid(raw: bytes) -> str:
    """Return the text of a UUID, as in `partition.metadata` and in Kafka's messages."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def decode_uuid(text: str) -> bytes:
    """Return the 16 bytes of a UUID from its text of 22 characters. Raises ValueError if the text is not a UUID."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not an id") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not an id of 16 bytes")
    return raw


def is_usable(raw: bytes) -> bool:
    """Return whether Kafka could generate this random UUID: it is not reserved, and its text does not begin with `-`, like a command-line
    option."""
    return raw[0] >> 2 != _DASH and int.from_bytes(raw, "big") >= _RESERVED_BELOW


def random_uuid(random_bytes: Callable[[int], bytes]) -> bytes:
    """Return a new random UUID, as Kafka's `Uuid.randomUuid`: call `random_bytes(16)` until the result is allowed. One draw in 64 is
    rejected."""
    while True:
        drawn = bytearray(random_bytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        raw = bytes(drawn)
        if is_usable(raw):
            return raw

"""Topic ids: 16 raw bytes, a version 4 UUID, written as 22 characters of unpadded base64url (Kafka's `Uuid`).

Invariants:
- A new id is never one of Kafka's reserved ids (the first hundred numbers), and its text never starts with `-`, so that tools do not take
  it for an option.
- Randomness is an argument.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final

ZERO_ID: Final = bytes(16)
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
"""The id of `__cluster_metadata`, the same in every cluster."""

_RESERVED_BELOW: Final = 100
_DASH: Final = 62
"""The 6-bit value that base64url writes as `-`."""


def id_text(topic_id: bytes) -> str:
    """Return the id's 22 characters, as in `partition.metadata` and in Kafka's messages."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def id_of(text: str) -> bytes:
    """Return the 16 bytes of a topic id from its text of 22 characters. Raises ValueError."""
    topic_id = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(topic_id) != len(ZERO_ID):
        raise ValueError(f"{text!r} is no topic id")
    return topic_id


def is_usable(topic_id: bytes) -> bool:
    """Return whether Kafka would accept a random id: it is not reserved, and its text does not look like an option."""
    return topic_id[0] >> 2 != _DASH and int.from_bytes(topic_id, "big") >= _RESERVED_BELOW


def new_topic_id(random_bytes: Callable[[int], bytes]) -> bytes:
    """Return a new topic id: call `random_bytes(16)` until the id is usable. One draw in 64 is rejected."""
    while True:
        drawn = bytearray(random_bytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        topic_id = bytes(drawn)
        if is_usable(topic_id):
            return topic_id

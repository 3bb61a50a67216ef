"""Which names a topic may have (Kafka's `Topic.validate` and `Topic.unifyCollisionChars`).

Rules that hold inside:
- A legal name never leaves the data directory: no separator, no blank, neither `.` nor `..`, and short enough for `<name>-<partition>`.
- Two names that differ only in `.` and `_` collide, because Kafka's metrics cannot tell them apart.
"""

from __future__ import annotations

import re
from typing import Final

NAME_LENGTH_MAX: Final = 249

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
CLUSTER_METADATA: Final = "__cluster_metadata"

INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Why `name` cannot be a topic's name, in words for the client; None when it can."""
    if not name:
        return "the empty string is not allowed as a topic name"
    if name in {".", ".."}:
        return f"'{name}' is not allowed as a topic name"
    if len(name) > NAME_LENGTH_MAX:
        return f"the topic name is {len(name)} characters long, more than {NAME_LENGTH_MAX}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


def has_collision_chars(name: str) -> bool:
    """Whether the name contains a character that metrics cannot tell from another."""
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Equal for two names exactly when they collide."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Whether the broker itself writes this topic; Metadata flags it and DeleteRecords refuses it."""
    return name in INTERNAL_TOPICS

"""Internal topics, and names that collide (Kafka's `Topic.unifyCollisionChars`).

Two names that differ only in `.` and `_` collide, because Kafka's metrics cannot tell them apart. `ottla.protocol.topic_names` says which
names are legal.
"""

from __future__ import annotations

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
CLUSTER_METADATA: Final = "__cluster_metadata"

INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})


def has_collision_chars(name: str) -> bool:
    """Whether the name contains a character that metrics cannot tell from another."""
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Equal for two names exactly when they collide."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Whether the broker itself writes this topic; Metadata flags it and DeleteRecords refuses it."""
    return name in INTERNAL_TOPICS

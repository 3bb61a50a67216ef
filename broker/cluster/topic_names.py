"""The internal topics, and topic names that collide (Kafka's `Topic.unifyCollisionChars`).

Two names that differ only in `.` and `_` collide, because Kafka's metrics cannot distinguish them. `ottla.protocol.topic_names` defines the
legal names.
"""

from __future__ import annotations

from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
CLUSTER_METADATA: Final = "__cluster_metadata"

INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})


def has_collision_chars(name: str) -> bool:
    """Return whether the topic name contains `.` or `_`, which Kafka's metrics cannot distinguish."""
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Return a key that is equal for two topic names exactly if they collide: they differ at most in `.` and `_`."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Return whether only the broker itself writes to this topic; Metadata flags it and DeleteRecords rejects it."""
    return name in INTERNAL_TOPICS

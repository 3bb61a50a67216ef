"""The topic ids that are the same in every cluster. A topic id is a UUID of 16 raw bytes (`ottla.protocol.uuids`)."""

from __future__ import annotations

from typing import Final

ZERO_ID: Final = bytes(16)
"""Kafka's `Uuid.ZERO_UUID`, which stands for a topic id that is unknown or not given."""
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
"""The id of `__cluster_metadata`, the same in every cluster."""

"""The topic ids that have a meaning of their own. A topic id is a UUID of 16 raw bytes (`ottla.protocol.uuids`)."""

from __future__ import annotations

from typing import Final

ZERO_ID: Final = bytes(16)
"""No topic id."""
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
"""The id of `__cluster_metadata`, the same in every cluster."""

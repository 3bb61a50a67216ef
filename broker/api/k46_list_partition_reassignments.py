"""ListPartitionReassignments (key 46), version 0, on a node of its own: nothing moves (KIP-455)."""

from __future__ import annotations

from ottla.broker.api.controller_partitions import reassignments as handle

__all__ = ["handle"]

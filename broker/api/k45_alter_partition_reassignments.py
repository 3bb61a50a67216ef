"""AlterPartitionReassignments (key 45), versions 0-1, on a standalone node: a partition cannot be on any other broker (KIP-455)."""

from __future__ import annotations

from ottla.broker.api.access import for_cluster
from ottla.broker.api.controller_partitions import reassign
from ottla.broker.core.acl import Operation

handle = for_cluster(Operation.ALTER, reassign)

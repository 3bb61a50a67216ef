"""AlterPartitionReassignments (key 45), versions 0-1, on a node of its own: a partition can be nowhere but here (KIP-455)."""

from __future__ import annotations

from ottla.broker.api.access import for_cluster
from ottla.broker.api.controller_partitions import reassign
from ottla.broker.core.acl import Operation

handle = for_cluster(Operation.ALTER, reassign)

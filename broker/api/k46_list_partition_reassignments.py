"""ListPartitionReassignments (key 46), version 0, on a standalone node: there are no reassignments (KIP-455)."""

from __future__ import annotations

from ottla.broker.api.access import for_cluster
from ottla.broker.api.controller_partitions import reassignments
from ottla.broker.core.acl import Operation

handle = for_cluster(Operation.DESCRIBE, reassignments)

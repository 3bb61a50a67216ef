"""ElectLeaders (key 43), versions 0-2, on a standalone node: it leads every partition, so no election is needed (KIP-460)."""

from __future__ import annotations

from ottla.broker.api.access import for_cluster
from ottla.broker.api.controller_partitions import elect
from ottla.broker.core.acl import Operation

handle = for_cluster(Operation.ALTER, elect)

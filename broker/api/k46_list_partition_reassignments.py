"""ListPartitionReassignments (key 46), version 0: the reassignments in progress; on a standalone node, none (KIP-455)."""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.reassign_partitions import list_partition_reassignments
from ottla.broker.core.acl import Operation
from ottla.broker.core.effects import Effects
from ottla.protocol.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse

API = Api(
    ListPartitionReassignmentsRequest,
    forwarded=Forwarded.ALWAYS,
    splits=(Split("topics.partition_indexes", "topics.partitions", ("name", "")),),
)


@API.on_controller(requires=Operation.DESCRIBE)
async def handle(ctx: Context[ControllerServices], request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Return the partition reassignments that are in progress in the committed metadata."""
    return await ctx.services.active.run(lambda state: Effects([], list_partition_reassignments(state, request)))

"""AlterPartitionReassignments (key 45), versions 0-1: begins or cancels reassignments of partitions (KIP-455).

If the whole request is rejected, each requested partition has the error, too. A standalone node rejects every assignment to another broker.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.reassign_partitions import alter_partition_reassignments
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

API = Api(AlterPartitionReassignmentsRequest, forwarded=Forwarded.ALWAYS, splits=(Split("topics.partitions", "responses.partitions"),))


@API.on_controller(requires=Operation.ALTER)
async def handle(ctx: Context[ControllerServices], request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    """Begin or cancel reassignments of partitions, as the request says. A request without topics gets an empty response at once (KAFKA
    QuorumController)."""
    if not request.topics:
        return AlterPartitionReassignmentsResponse()
    try:
        return await ctx.services.active.run(partial(alter_partition_reassignments, request=request))
    except Rejected as error:
        responses = [
            ReassignableTopicResponse(
                each.name, [ReassignablePartitionResponse(at.partition_index, error.code, error.message) for at in each.partitions]
            )
            for each in request.topics
        ]
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message, responses=responses)

"""The controller's handlers for partitions: ElectLeaders (key 43), AlterPartitionReassignments (45), ListPartitionReassignments (46),
AlterPartition (56) and AssignReplicasToDirs (73).

A request that is rejected as a whole is rejected as in Kafka: requests of clients have the error at each partition, too.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.controller_context import ControllerContext
from ottla.broker.controller.alter_partition import alter_partition
from ottla.broker.controller.assign_directories import assign_directories
from ottla.broker.controller.elect_leaders import elect_leaders
from ottla.broker.controller.reassign_partitions import alter_partition_reassignments, list_partition_reassignments
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.protocol.messages.k43_elect_leaders import PartitionResult as ElectionAnswer
from ottla.protocol.messages.k43_elect_leaders import ReplicaElectionResult as ElectionResult
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.protocol.messages.k45_alter_partition_reassignments import ReassignablePartitionResponse as MovedPartition
from ottla.protocol.messages.k45_alter_partition_reassignments import ReassignableTopicResponse as MovedTopic
from ottla.protocol.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from ottla.protocol.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.protocol.messages.k73_assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse


async def elect(ctx: ControllerContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect leaders for partitions."""
    try:
        return await ctx.services.active.run(partial(elect_leaders, request=request))
    except Rejected as error:
        asked = request.topic_partitions or []
        results = [ElectionResult(each.topic, [ElectionAnswer(at, error.code, error.message) for at in each.partitions]) for each in asked]
        return ElectLeadersResponse(error_code=error.code, replica_election_results=results)


async def reassign(ctx: ControllerContext, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    """Begin or cancel reassignments. A request without topics is not processed (KAFKA QuorumController)."""
    if not request.topics:
        return AlterPartitionReassignmentsResponse()
    try:
        return await ctx.services.active.run(partial(alter_partition_reassignments, request=request))
    except Rejected as error:
        responses = [
            MovedTopic(each.name, [MovedPartition(at.partition_index, error.code, error.message) for at in each.partitions])
            for each in request.topics
        ]
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message, responses=responses)


async def reassignments(ctx: ControllerContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Return the reassignments in progress, as far as they are committed."""
    return await ctx.services.active.run(lambda state: Effects([], list_partition_reassignments(state, request)))


async def alter_in_sync(ctx: ControllerContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Change the ISR of partitions."""
    try:
        return await ctx.services.active.run(partial(alter_partition, request=request))
    except Rejected as error:
        return AlterPartitionResponse(error_code=error.code)


async def assign(ctx: ControllerContext, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
    """Record the directories of replicas."""
    try:
        return await ctx.services.active.run(partial(assign_directories, request=request))
    except Rejected as error:
        return AssignReplicasToDirsResponse(error_code=error.code)

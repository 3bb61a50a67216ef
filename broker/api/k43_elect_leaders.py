"""ElectLeaders (key 43), versions 0-2: elects leaders of partitions by preferred or unclean election (KIP-460).

If the whole request is rejected, each requested partition has the error, too.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ControllerServices
from ottla.broker.controller.elect_leaders import elect_leaders
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult

API = Api(
    ElectLeadersRequest,
    forwarded=Forwarded.ALWAYS,
    splits=(Split("topic_partitions.partitions", "replica_election_results.partition_result", ("topic", "")),),
)


@API.on_controller(requires=Operation.ALTER)
async def handle(ctx: Context[ControllerServices], request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect leaders for the partitions that the request names, or for all partitions of the cluster. Return a result for each partition."""
    try:
        return await ctx.services.active.run(partial(elect_leaders, request=request))
    except Rejected as error:
        requested = request.topic_partitions or []
        results = [
            ReplicaElectionResult(each.topic, [PartitionResult(at, error.code, error.message) for at in each.partitions])
            for each in requested
        ]
        return ElectLeadersResponse(error_code=error.code, replica_election_results=results)

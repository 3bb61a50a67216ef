"""WriteShareGroupState (key 85), versions 0-1: writes what leaders have changed in the state of share partitions.

Promises:
* Only brokers send it (ClusterAction on the cluster). Each share partition has its own error, and the response waits until every change is
  committed.
* A leader epoch below the recorded leader epoch is FENCED_LEADER_EPOCH, a state epoch below the recorded state epoch FENCED_STATE_EPOCH,
  and a share partition without state INVALID_REQUEST.
* After share.coordinator.snapshot.update.records.per.snapshot update records, the next write is a snapshot record.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import ShareGroupServices
from ottla.broker.api.share_state import respond_per_share_partition
from ottla.broker.core.acl import Operation
from ottla.broker.share.persister import StateBatch, WrittenState
from ottla.protocol.messages.k85_write_share_group_state import (
    PartitionData,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)

API = Api(
    WriteShareGroupStateRequest,
    throttled=False,
    splits=(Split("topics.partitions", "results.partitions"),),
    array_limits={"topics.partitions.state_batches": 20_000},  # twice group.share.max.partition.max.record.locks' highest value
)


@API.on_broker(requires=Operation.CLUSTER_ACTION)
def handle(
    ctx: Context[ShareGroupServices], request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse | Awaitable[WriteShareGroupStateResponse]:
    """Write the changed start offset and delivery states of each share partition that the request names. Respond when every share partition
    has a result."""
    state = ctx.services.share.state
    return respond_per_share_partition(
        request, "write share group state", lambda key, part: state.write(key, _state(part)), WriteShareGroupStateResponse
    )


def _state(part: PartitionData) -> WrittenState:
    batches = [StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in part.state_batches]
    return WrittenState(part.state_epoch, part.leader_epoch, part.start_offset, part.delivery_complete_count, batches)

"""ReadShareGroupState (key 84), version 0: returns the state of share partitions to their leaders.

Promises:
* Only brokers send it (ClusterAction on the cluster). Each share partition has its own error, and the response waits until every change is
  committed.
* The leader epoch of the request is recorded. A leader epoch below the recorded one is FENCED_LEADER_EPOCH, and a share partition without
  state is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import ShareGroupServices
from ottla.broker.api.share_state import respond_per_share_partition
from ottla.broker.core.acl import Operation
from ottla.broker.share.persister import ReadState
from ottla.protocol.messages.k84_read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)
from ottla.protocol.messages.share_state import StateBatch

API = Api(ReadShareGroupStateRequest, throttled=False, splits=(Split("topics.partitions", "results.partitions"),))


@API.on_broker(requires=Operation.CLUSTER_ACTION)
def handle(
    ctx: Context[ShareGroupServices], request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse | Awaitable[ReadShareGroupStateResponse]:
    """Return the state (start offset and delivery states) of each share partition that the request names. Respond when every share
    partition has a result."""
    state = ctx.services.share.state
    return respond_per_share_partition(
        request,
        "read share group state",
        lambda key, part: state.read(key, part.leader_epoch),
        ReadShareGroupStateResponse,
        topic_result=ReadStateResult,
        result=_result,
        refused=PartitionResult,
    )


def _result(index: int, state: ReadState) -> PartitionResult:
    batches = [StateBatch(*batch) for batch in state.batches]
    return PartitionResult(index, state_epoch=state.state_epoch, start_offset=state.start_offset, state_batches=batches)

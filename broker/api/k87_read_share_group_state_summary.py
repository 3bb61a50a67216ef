"""ReadShareGroupStateSummary (key 87), versions 0-1: returns the start offsets and epochs of share partitions.

Promises:
* Only brokers send it (ClusterAction on the cluster). Each share partition has its own error, and the response waits until every change is
  committed.
* A share partition without state has the start offset -1. The leader epoch of the request is not used.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import ShareGroupServices
from ottla.broker.api.share_state import respond_per_share_partition
from ottla.broker.core.acl import Operation
from ottla.broker.share.persister import StateSummary
from ottla.protocol.messages.k87_read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

API = Api(ReadShareGroupStateSummaryRequest, throttled=False, splits=(Split("topics.partitions", "results.partitions"),))


@API.on_broker(requires=Operation.CLUSTER_ACTION)
def handle(
    ctx: Context[ShareGroupServices], request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse | Awaitable[ReadShareGroupStateSummaryResponse]:
    """Return start offset and epochs, without delivery states, of each share partition that the request names. Respond when every share
    partition has a result."""
    state = ctx.services.share.state
    return respond_per_share_partition(
        request,
        "read share group state summary",
        lambda key, _: state.summary(key),
        ReadShareGroupStateSummaryResponse,
        topic_result=ReadStateSummaryResult,
        result=_result,
        refused=PartitionResult,
    )


def _result(index: int, summary: StateSummary) -> PartitionResult:
    return PartitionResult(
        index,
        state_epoch=summary.state_epoch,
        leader_epoch=summary.leader_epoch,
        start_offset=summary.start_offset,
        delivery_complete_count=summary.delivery_complete_count,
    )

"""InitializeShareGroupState (key 83), version 0: creates the state of share partitions, with a start offset (KIP-932).

Promises:
* Only brokers send it (ClusterAction on the cluster). Each share partition has its own error, and the response waits until every change is
  committed.
* The new state has no delivery states, and is written as a snapshot record. A state epoch below the current one is FENCED_STATE_EPOCH.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import ShareGroupServices
from ottla.broker.api.share_state import respond_per_share_partition
from ottla.broker.core.acl import Operation
from ottla.protocol.messages.k83_initialize_share_group_state import InitializeShareGroupStateRequest, InitializeShareGroupStateResponse

API = Api(InitializeShareGroupStateRequest, throttled=False, splits=(Split("topics.partitions", "results.partitions"),))


@API.on_broker(requires=Operation.CLUSTER_ACTION)
def handle(
    ctx: Context[ShareGroupServices], request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse | Awaitable[InitializeShareGroupStateResponse]:
    """Create the state of each share partition that the request names, with its start offset. Respond when every share partition has a
    result."""
    state = ctx.services.share.state
    return respond_per_share_partition(
        request,
        "initialize share group state",
        lambda key, part: state.initialize(key, part.state_epoch, part.start_offset),
        InitializeShareGroupStateResponse,
    )

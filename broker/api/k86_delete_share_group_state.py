"""DeleteShareGroupState (key 86), version 0: deletes the state of share partitions.

Promises:
* Only brokers send it (ClusterAction on the cluster). Each share partition has its own error, and the response waits until every change is
  committed.
* The deletion of state that does not exist succeeds.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import ShareGroupServices
from ottla.broker.api.share_state import respond_per_share_partition
from ottla.broker.core.acl import Operation
from ottla.protocol.messages.k86_delete_share_group_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse

API = Api(DeleteShareGroupStateRequest, throttled=False, splits=(Split("topics.partitions", "results.partitions"),))


@API.on_broker(requires=Operation.CLUSTER_ACTION)
def handle(
    ctx: Context[ShareGroupServices], request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse | Awaitable[DeleteShareGroupStateResponse]:
    """Delete the state of each share partition that the request names. Respond when every share partition has a result."""
    state = ctx.services.share.state
    return respond_per_share_partition(request, "delete share group state", lambda key, _: state.delete(key), DeleteShareGroupStateResponse)

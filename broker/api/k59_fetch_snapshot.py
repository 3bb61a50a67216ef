"""FetchSnapshot (key 59), versions 0-1: returns a part of a snapshot of the metadata log (KIP-630)."""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ControllerServices
from ottla.broker.core.acl import Operation
from ottla.protocol.messages.k59_fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

API = Api(FetchSnapshotRequest, throttled=False)


@API.on_controller(requires=Operation.CLUSTER_ACTION)
def handle(ctx: Context[ControllerServices], request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Return a range of bytes of a metadata log snapshot. Snapshot and position are named by the request."""
    return ctx.services.serving.fetch_snapshot(request)

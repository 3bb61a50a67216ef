"""DescribeQuorum (key 55), versions 0-2: the voters and observers of the metadata log with their log end offsets (KIP-595).

A standalone node reports its broker's listeners as those of its controller, because the controller has none of its own.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ControllerServices
from ottla.broker.core.acl import Operation
from ottla.protocol.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)

API = Api(DescribeQuorumRequest, forwarded=Forwarded.ALWAYS, splits=(Split("topics.partitions", "topics.partitions"),))


@API.on_controller(requires=Operation.DESCRIBE)
def handle(ctx: Context[ControllerServices], request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Return the quorum's only voter, which is this controller, and its observers (the nodes that fetch the metadata log), with their log
    end offsets."""
    return ctx.services.serving.describe(request)

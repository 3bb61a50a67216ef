"""DescribeQuorum (key 55), versions 0-2: the voters and observers of the metadata log with their log end offsets (KIP-595).

A standalone node is the only voter, and has read all of the log. The controller's listener in its response is the broker's, because it has
no other.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import DecidingServices, QuorumServices
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum.serving import not_the_metadata
from ottla.protocol.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionResult,
    ReplicaState,
    TopicResult,
)

API = Api(DescribeQuorumRequest, forwarded=Forwarded.ALWAYS, splits=(Split("topics.partitions", "topics.partitions"),))


@API.on_controller(requires=Operation.DESCRIBE)
def handle(ctx: Context[QuorumServices], request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Return the voters and observers with their log end offsets."""
    return ctx.services.serving.describe(request)


@API.on_broker(requires=Operation.DESCRIBE)
def handle_standalone(ctx: Context[DecidingServices], request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Return the only voter, which is the leader."""
    places = [(topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    if places != [(CLUSTER_METADATA, 0)]:
        return not_the_metadata(request)
    services = ctx.services
    voter, now_ms, me = services.active.voter, services.clock.now_ms(), services.settings.node_id
    replica = ReplicaState(me, voter.me.directory_id, voter.end_offset, now_ms, now_ms)
    partition = PartitionResult(
        leader_id=me, leader_epoch=voter.epoch, high_watermark=voter.high_watermark, current_voters=[replica], observers=[]
    )
    dialled = ctx.peer.dialled
    nodes = [Node(me, [Listener(dialled.listener, dialled.host, dialled.port)])]
    return DescribeQuorumResponse(topics=[TopicResult(CLUSTER_METADATA, [partition])], nodes=nodes)

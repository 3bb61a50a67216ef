"""DescribeQuorum (key 55), versions 0-2, on a standalone node: it is the only voter of its metadata log, and has read all of it
(KIP-595).

The controller's listener in the response is the broker's, because a standalone node has no other.
"""

from __future__ import annotations

from ottla.broker.api.access import allowed_of_cluster
from ottla.broker.api.context import Context
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.core.acl import Operation
from ottla.broker.runtime.quorum.serving import not_the_metadata
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k55_describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionResult,
    ReplicaState,
    TopicResult,
)


def handle(ctx: Context, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Return the only voter, which is the leader."""
    if not allowed_of_cluster(ctx, Operation.DESCRIBE):
        return DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    places = [(topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    if places != [(CLUSTER_METADATA, 0)]:
        return not_the_metadata(request)
    services = ctx.services
    log, now_ms, me = services.topic_service.metadata_log.log, services.clock.now_ms(), services.node_id
    voter = ReplicaState(me, services.log_dir.meta.directory_id, log.log_end_offset, now_ms, now_ms)
    partition = PartitionResult(
        leader_id=me, leader_epoch=log.leader_epoch, high_watermark=log.log_end_offset, current_voters=[voter], observers=[]
    )
    dialled = ctx.peer.dialled
    nodes = [Node(me, [Listener(dialled.listener, dialled.host, dialled.port)])]
    return DescribeQuorumResponse(topics=[TopicResult(CLUSTER_METADATA, [partition])], nodes=nodes)

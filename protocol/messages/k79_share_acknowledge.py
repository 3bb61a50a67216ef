"""Acknowledge records that a share group's member acquired (KIP-932).

Versions 1-2, all flexible.

Changes by version:
* 2: `is_renew_ack`: acknowledgements may renew acquisition locks; `acquisition_lock_timeout_ms` (KIP-1222).
"""

from __future__ import annotations

from ottla.protocol.messages.node_endpoint import NodeEndpoint
from ottla.protocol.messages.share_partitions import LeaderIdAndEpoch, ShareTopic
from ottla.protocol.schema import Message, array, boolean, int16, int32, string, struct, uuid, wire_struct


@wire_struct
class ShareAcknowledgeRequest(Message, api_key=79, versions="1-2", flexible="0+"):
    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareTopic] = array(ShareTopic)


@wire_struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)


@wire_struct
class ShareAcknowledgeTopicResponse:
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class ShareAcknowledgeResponse(Message, api_key=79, versions="1-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+")
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)

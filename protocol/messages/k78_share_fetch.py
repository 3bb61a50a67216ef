"""Acquire records for a share group's member, and acknowledge records acquired before (KIP-932).

Versions 1-2, all flexible.

Changes by version:
* 2: `share_acquire_mode` (KIP-1206); `is_renew_ack`: acknowledgements may renew acquisition locks (KIP-1222).
"""

from __future__ import annotations

from ottla.protocol.messages.node_endpoint import NodeEndpoint
from ottla.protocol.messages.share_partitions import LeaderIdAndEpoch, ShareTopic
from ottla.protocol.schema import Buffer, Message, array, boolean, int8, int16, int32, int64, records_, string, struct, uuid, wire_struct


@wire_struct
class ForgottenTopic:
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@wire_struct
class ShareFetchRequest(Message, api_key=78, versions="1-2", flexible="0+"):
    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8("2+")
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareTopic] = array(ShareTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


@wire_struct
class AcquiredRecords:
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


@wire_struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    records: Buffer = records_()
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


@wire_struct
class ShareFetchableTopicResponse:
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@wire_struct
class ShareFetchResponse(Message, api_key=78, versions="1-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)

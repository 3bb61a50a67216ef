"""Delete the start offsets of whole topics from a share group without members (KIP-932).

Version 0, flexible.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, string, uuid, wire_struct


@wire_struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = string()


@wire_struct
class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions="0", flexible="0+"):
    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


@wire_struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@wire_struct
class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(DeleteShareGroupOffsetsResponseTopic)

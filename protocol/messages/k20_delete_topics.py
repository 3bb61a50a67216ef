"""Delete topics.

Versions 1-6; flexible from 4.

Changes by version:
* 3: TOPIC_DELETION_DISABLED may be returned. 5: `error_message`. 6: `topics`, by name or id, replaces `topic_names` (KIP-516).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, string, uuid, wire_struct


@wire_struct
class DeleteTopicState:
    name: str | None = string(nullable="0+", default=None)
    topic_id: bytes = uuid()


@wire_struct
class DeleteTopicsRequest(Message, api_key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(string, "1-5")
    timeout_ms: int = int32()


@wire_struct
class DeletableTopicResult:
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None)


@wire_struct
class DeleteTopicsResponse(Message, api_key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)

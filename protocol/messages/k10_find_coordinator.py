"""Find the coordinator of a group (key type 0), a transactional id (1) or a share group's partition (2).

Versions 0-6; flexible from 3.

Changes by version:
* 1: `key_type`; `throttle_time_ms` and `error_message`. 4: many keys in one request (KIP-699).
* 5: TRANSACTION_ABORTABLE may be returned (KIP-890). 6: share groups (KIP-932).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int16, int32, string, wire_struct


@wire_struct
class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


@wire_struct
class Coordinator:
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@wire_struct
class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")

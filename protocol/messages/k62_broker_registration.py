"""A starting broker registers with the controller (KIP-631).

Versions 0-4, all flexible.

Changes by version:
* 1: `is_migrating_zk_broker`. 2: `log_dirs` (KIP-858). 3: `previous_broker_epoch` (KIP-966).
* 4: features whose minimum level is 0 may be listed (KAFKA-17011).
"""

from __future__ import annotations

from ottla.protocol.messages.registration import Feature, Listener
from ottla.protocol.schema import Message, array, boolean, int16, int32, int64, string, uuid, wire_struct


@wire_struct
class BrokerRegistrationRequest(Message, api_key=62, versions="0-4", flexible="0+"):
    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)
    rack: str | None = string(nullable="0+")
    is_migrating_zk_broker: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid, "2+")
    previous_broker_epoch: int = int64("3+", default=-1)


@wire_struct
class BrokerRegistrationResponse(Message, api_key=62, versions="0-4", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)

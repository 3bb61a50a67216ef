"""Decides the registration and unregistration of brokers and controllers.

Invariants:
- The order of checks is Kafka's.
- A broker's epoch is the offset of its registration record. It is kept when the same incarnation registers again.
- The records that remove a former incarnation from ISRs and leadership come before the registration record. If only the first of them are
  written before a crash, the broker registers again, and the remaining ones are decided then.

Source: Kafka's ClusterControlManager, ReplicationControlManager.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import KRAFT_VERSION, BrokerRegistration
from ottla.broker.cluster.metadata_records import (
    Endpoint,
    FeatureRange,
    MetadataRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterControllerRecord,
)
from ottla.broker.cluster.record_versions import CONTROLLER_REGISTRATION, CONTROLLER_UNREGISTRATION, DIRECTORIES
from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch
from ottla.broker.controller.leader_changes import broker_restarted, broker_unregistered
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.k70_controller_registration import ControllerRegistrationRequest

NEVER_REGISTERED: Final = -2
"""The last epoch of a broker that is not registered. It equals no previous epoch that a broker reports (-1 is "unknown"), so the
registration does not count as that of a cleanly stopped broker.
"""
_HALVES: Final = struct.Struct(">qq")
_RESERVED_IDS: Final = 100
_SECURITY_PROTOCOLS: Final = range(4)
_PORTS: Final = range(1, 2**16)


class _Named(Protocol):
    """The fields of a listener in a BrokerRegistration or ControllerRegistration request."""

    name: str
    host: str
    port: int
    security_protocol: int


class _Ranged(Protocol):
    """A feature and its supported levels in a BrokerRegistration or ControllerRegistration request."""

    name: str
    min_supported_version: int
    max_supported_version: int


def register_broker(
    state: ControllerState, request: BrokerRegistrationRequest, next_offset: int, now_ms: int, *, has_previous_epoch: bool = True
) -> Effects[MetadataRecord, int]:
    """Decide a BrokerRegistration request: return the metadata records to write, and the broker's epoch.

    `next_offset` is the offset of the next record in the metadata log, which becomes the broker epoch of a new incarnation.
    `has_previous_epoch` is false for requests below version 3, which have no previous broker epoch and so cannot prove a clean shutdown.
    Raises Rejected for another cluster id, for a broker id whose other incarnation still has a session, for unusable directory ids, and for
    unsupported feature levels.
    """
    known = state.image.brokers.get(request.broker_id)
    _check_identity(state, request, known, now_ms)
    has_directories = state.metadata_level >= DIRECTORIES
    if has_directories:
        _check_directories(state, request)
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=next_offset,
        end_points=_endpoints(request.listeners),
        features=_checked_features(state, request),
        rack=request.rack,
        log_dirs=list(request.log_dirs) if has_directories else [],
    )
    if known is not None and known.incarnation_id == request.incarnation_id:
        record.broker_epoch, record.fenced, record.in_controlled_shutdown = known.epoch, known.fenced, known.in_controlled_shutdown
        return Effects([record], record.broker_epoch)
    last_epoch = NEVER_REGISTERED if known is None else known.epoch
    is_clean = has_previous_epoch and request.previous_broker_epoch == last_epoch
    return Effects([*broker_restarted(state, request.broker_id, cleanly=is_clean), record], record.broker_epoch)


def register_controller(state: ControllerState, request: ControllerRegistrationRequest) -> Effects[MetadataRecord, None]:
    """Decide a ControllerRegistration request: return the metadata records to write. Raises Rejected (UNSUPPORTED_VERSION) if
    metadata.version is too low."""
    if state.metadata_level < CONTROLLER_REGISTRATION:
        raise Rejected(ErrorCode.UNSUPPORTED_VERSION, "The current MetadataVersion is too old to support controller registrations.")
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=_endpoints(request.listeners),
        features=[_range(feature) for feature in request.features],
    )
    return Effects([record], None)


def unregister_broker(state: ControllerState, broker_id: int) -> Effects[MetadataRecord, None]:
    """Decide an UnregisterBroker request: return the metadata records to write. If the broker still runs, its later requests to the
    controller get STALE_BROKER_EPOCH. Raises Rejected (BROKER_ID_NOT_REGISTERED) for an unknown broker id."""
    if broker_id not in state.image.brokers:
        raise Rejected(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    return Effects(broker_unregistered(state, broker_id), None)


def unregister_controller(state: ControllerState, controller_id: int) -> Effects[MetadataRecord, None]:
    """Decide an UnregisterController request: return the metadata record to write. Raises Rejected if the controller is this node itself,
    metadata.version is too low, or the controller is not registered, in the order of Kafka's checks."""
    if controller_id == state.settings.node_id:
        raise Rejected(ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")
    if state.metadata_level < CONTROLLER_UNREGISTRATION:
        raise Rejected(ErrorCode.UNSUPPORTED_VERSION, "The current MetadataVersion is too old to support controller unregistration.")
    if controller_id not in state.image.controllers:
        raise Rejected(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"Controller ID {controller_id} is not currently registered.")
    return Effects([UnregisterControllerRecord(controller_id)], None)


def _check_identity(state: ControllerState, request: BrokerRegistrationRequest, known: BrokerRegistration | None, now_ms: int) -> None:
    if request.cluster_id != state.cluster_id:
        raise Rejected(
            ErrorCode.INCONSISTENT_CLUSTER_ID, f"Expected cluster ID {state.cluster_id}, but got cluster ID {request.cluster_id}"
        )
    is_another = known is not None and known.incarnation_id != request.incarnation_id
    if known is not None and is_another and state.sessions.is_valid(BrokerIdAndEpoch(known.broker_id, known.epoch), now_ms):
        raise Rejected(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this should self-resolve once the "
            "heartbeat manager expires the broker's session.",
        )
    if request.is_migrating_zk_broker:
        raise Rejected(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    if not request.log_dirs:
        raise _invalid("No directories specified in request")
    if any(_is_reserved(directory) for directory in request.log_dirs):
        raise _invalid("Reserved directory ID in request")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise _invalid("Duplicate directory ID in request")
    others = (broker for broker in state.image.brokers.values() if broker.broker_id != request.broker_id)
    owners = {directory: broker.broker_id for broker in others for directory in broker.directories}
    for directory in request.log_dirs:
        if directory in owners:
            raise _invalid(f"Broker {owners[directory]} is already registered with directory {UUID(bytes=directory)}")


def _is_reserved(directory: bytes) -> bool:
    """Return whether Kafka reserves the directory id (DirectoryId.reserved): its first half is 0, and its second half, a signed number,
    is below 100."""
    high, low = _HALVES.unpack(directory)
    return bool(high == 0 and low < _RESERVED_IDS)


def _checked_features(state: ControllerState, request: BrokerRegistrationRequest) -> list[FeatureRange]:
    """Return the feature ranges in a broker's registration request. Raises Rejected if a range does not contain the cluster's finalized
    level, or if `metadata.version` is missing. Any other feature that the request does not name counts as supported at level 0 only."""
    finalized = {**state.image.features, KRAFT_VERSION: state.kraft_version}
    for feature in request.features:
        _check_level(feature.name, finalized.get(feature.name, 0), feature.min_supported_version, feature.max_supported_version)
    named = {feature.name for feature in request.features}
    if METADATA_VERSION not in named:
        raise _invalid(f"Request features do not contain '{METADATA_VERSION}'")
    for name, level in finalized.items():
        if name not in named:
            _check_level(name, level, 0, 0)
    return [_range(feature) for feature in request.features]


def _check_level(name: str, level: int, low: int, high: int) -> None:
    if not low <= level <= high:
        raise Rejected(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unable to register because the broker does not support finalized version {level} of {name}. "
            f"The broker wants a version between {low} and {high}, inclusive.",
        )


def _range(feature: _Ranged) -> FeatureRange:
    return FeatureRange(feature.name, feature.min_supported_version, feature.max_supported_version)


def _endpoints(listeners: Sequence[_Named]) -> list[Endpoint]:
    for listener in listeners:
        if not listener.name or not listener.host.strip() or listener.port not in _PORTS:
            raise _invalid(f"A listener needs a name, a host and a port: {listener.name}://{listener.host}:{listener.port}")
        if listener.security_protocol not in _SECURITY_PROTOCOLS:
            raise _invalid(f"Unknown security protocol {listener.security_protocol} in listener {listener.name}")
    return [Endpoint(listener.name, listener.host, listener.port, listener.security_protocol) for listener in listeners]


def _invalid(message: str) -> Rejected:
    return Rejected(ErrorCode.INVALID_REGISTRATION, message)

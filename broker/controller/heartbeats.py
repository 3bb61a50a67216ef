"""Decides how a broker's heartbeat, or its missing heartbeats, change its state.

Invariants:
- Metadata records fence and unfence a broker. The records that move leaderships away come before the record that fences the broker; the
  records that make it leader again come after the record that unfences it.
- A broker in controlled shutdown may end when it leads no partition, and every active broker has applied the metadata that says so.
- Each heartbeat repeats the broker's failed directories. Only those that are still in the registration cause a change.

Source: Kafka's BrokerHeartbeatManager, ReplicationControlManager (processBrokerHeartbeat, maybeFenceOneStaleBroker).
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.cluster.image import BrokerRegistration
from ottla.broker.cluster.metadata_records import BrokerRegistrationChangeRecord, MetadataRecord
from ottla.broker.cluster.record_versions import CORDONED_DIRECTORIES, DIRECTORIES
from ottla.broker.controller.broker_sessions import UNKNOWN_OFFSET, BrokerIdAndEpoch, BrokerState
from ottla.broker.controller.leader_changes import (
    broker_fenced,
    broker_shutting_down,
    broker_unfenced,
    directories_failed,
    leads_any_partition,
)
from ottla.broker.controller.state import ControllerState, EffectsOutsideLog
from ottla.broker.core.effects import Effects
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The result of a broker's heartbeat. `is_caught_up` is true if the broker has applied the metadata up to its own registration."""

    is_caught_up: bool
    state: BrokerState

    @property
    def should_shut_down(self) -> bool:
        """Whether the broker may shut down now; the field of the same name in the response."""
        return self.state is BrokerState.SHUTDOWN_NOW


def heartbeat(state: ControllerState, request: BrokerHeartbeatRequest) -> Effects[MetadataRecord, HeartbeatReply]:
    """Decide a broker's heartbeat: return the metadata records that change the broker's state, and the result for the response. The
    heartbeat has already extended the broker's session when the request arrived.

    Raises Rejected (STALE_BROKER_EPOCH) if the request does not have the broker's current epoch.
    """
    broker = state.broker(request.broker_id, request.broker_epoch)
    is_caught_up = request.current_metadata_offset >= state.registered_at[broker.broker_id]
    before = state.sessions.state(broker.broker_id)
    after = _next_state(state, request, before, is_caught_up=is_caught_up)
    records = [] if after is before else _records_of(state, broker.broker_id, after)
    if state.metadata_level >= DIRECTORIES:
        records += directories_failed(state, broker.broker_id, request.offline_log_dirs)
    if state.metadata_level >= CORDONED_DIRECTORIES:
        records += _directories_cordoned(broker, request)
    changes = any(isinstance(record, BrokerRegistrationChangeRecord) for record in records)

    def process_batch_end_offset(last_offset: int) -> None:
        offset = UNKNOWN_OFFSET if changes else request.current_metadata_offset
        state.sessions.report(broker.broker_id, fenced=after.is_fenced, offset=offset)
        if after is BrokerState.CONTROLLED_SHUTDOWN:
            state.sessions.maintain_controlled_shutdown_offset(broker.broker_id, last_offset)

    return EffectsOutsideLog(records, HeartbeatReply(is_caught_up, after), process_batch_end_offset)


def fence_stale(state: ControllerState, now_ms: int) -> Effects[MetadataRecord, BrokerIdAndEpoch | None]:
    """Fence the broker whose last heartbeat is the oldest if its session has timed out: return the metadata records to write, and the
    broker's id and epoch. Otherwise return no records and None.

    One broker is fenced at a time, so that the decision about the next one sees the changes. The caller repeats this until it gets None.
    """
    session = state.sessions.expired(now_ms)
    if session is None:
        return Effects([], None)
    broker = state.image.brokers.get(session.broker_id)
    is_current = broker is not None and broker.epoch == session.epoch
    records = broker_fenced(state, broker.broker_id) if broker is not None and is_current else []
    return EffectsOutsideLog(records, session, lambda _: state.sessions.forget(session))


def _next_state(state: ControllerState, request: BrokerHeartbeatRequest, before: BrokerState, *, is_caught_up: bool) -> BrokerState:
    broker_id = request.broker_id
    match before:
        case BrokerState.FENCED if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        case BrokerState.FENCED:
            return BrokerState.UNFENCED if is_caught_up and not request.want_fence else before
        case BrokerState.UNFENCED if request.want_fence:
            return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
        case BrokerState.UNFENCED if request.want_shut_down:
            return BrokerState.CONTROLLED_SHUTDOWN if leads_any_partition(state, broker_id) else BrokerState.SHUTDOWN_NOW
        case BrokerState.UNFENCED:
            return before
    may_shut_down = not leads_any_partition(state, broker_id) and state.sessions.may_shut_down(broker_id)
    return BrokerState.SHUTDOWN_NOW if may_shut_down else before


def _records_of(state: ControllerState, broker_id: int, after: BrokerState) -> list[MetadataRecord]:
    match after:
        case BrokerState.UNFENCED:
            return broker_unfenced(state, broker_id)
        case BrokerState.CONTROLLED_SHUTDOWN:
            return broker_shutting_down(state, broker_id)
    return broker_fenced(state, broker_id)


def _directories_cordoned(broker: BrokerRegistration, request: BrokerHeartbeatRequest) -> list[MetadataRecord]:
    reported, known = request.cordoned_log_dirs, broker.cordoned_directories
    if reported is None or (known is not None and set(known) == set(reported)):
        return []
    return [BrokerRegistrationChangeRecord(broker.broker_id, broker.epoch, cordoned_log_dirs=list(reported))]

"""Broker sessions: extension, expiry, and the progress of a controlled shutdown."""

from __future__ import annotations

import pytest

from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch, BrokerSessions, BrokerState


@pytest.fixture
def sessions() -> BrokerSessions:
    return BrokerSessions(session_timeout_ms=9_000)


def test_a_session_expires_after_its_timeout(sessions: BrokerSessions) -> None:
    sessions.touch(BrokerIdAndEpoch(1, 5), 100)
    assert sessions.is_valid(BrokerIdAndEpoch(1, 5), 9_100)
    assert sessions.expired(9_100) is None
    assert not sessions.is_valid(BrokerIdAndEpoch(1, 5), 9_101)
    assert sessions.expired(9_101) == BrokerIdAndEpoch(1, 5)


def test_a_heartbeat_of_another_epoch_extends_no_session(sessions: BrokerSessions) -> None:
    sessions.touch(BrokerIdAndEpoch(1, 5), 0)
    sessions.touch(BrokerIdAndEpoch(1, 4), 9_000)
    assert not sessions.is_valid(BrokerIdAndEpoch(1, 5), 9_001)
    assert sessions.expired(9_001) == BrokerIdAndEpoch(1, 5)


def test_sessions_expire_in_the_order_of_their_last_heartbeat(sessions: BrokerSessions) -> None:
    for broker_id in 1, 2, 3:
        sessions.touch(BrokerIdAndEpoch(broker_id, 0), broker_id)
    sessions.touch(BrokerIdAndEpoch(1, 0), 4)
    assert sessions.expired(20_000) == BrokerIdAndEpoch(2, 0)
    sessions.forget(BrokerIdAndEpoch(2, 0))
    assert sessions.expired(20_000) == BrokerIdAndEpoch(3, 0)
    sessions.forget(BrokerIdAndEpoch(3, 0))
    assert sessions.expired(20_000) == BrokerIdAndEpoch(1, 0)


def test_a_shutdown_completes_when_active_brokers_have_the_metadata(sessions: BrokerSessions) -> None:
    for broker_id in 1, 2, 3, 4:
        sessions.register(broker_id, fenced=broker_id == 4)
        sessions.report(broker_id, fenced=broker_id == 4, offset=10)
    sessions.maintain_controlled_shutdown_offset(1, 20)
    assert sessions.state(1) is BrokerState.CONTROLLED_SHUTDOWN
    assert not sessions.may_shut_down(1)
    sessions.report(2, fenced=False, offset=20)
    assert not sessions.may_shut_down(1)
    sessions.report(3, fenced=False, offset=25)
    assert sessions.may_shut_down(1)


def test_a_shutdown_keeps_its_first_offset(sessions: BrokerSessions) -> None:
    for broker_id in 1, 2:
        sessions.register(broker_id, fenced=False)
    sessions.maintain_controlled_shutdown_offset(1, 20)
    sessions.maintain_controlled_shutdown_offset(1, 40)
    sessions.report(2, fenced=False, offset=20)
    assert sessions.may_shut_down(1)


def test_fencing_ends_a_controlled_shutdown(sessions: BrokerSessions) -> None:
    sessions.register(1, fenced=False)
    sessions.maintain_controlled_shutdown_offset(1, 20)
    sessions.register(1, fenced=True)
    assert sessions.state(1) is BrokerState.FENCED


def test_a_changed_registration_resets_the_brokers_metadata_offset(sessions: BrokerSessions) -> None:
    for broker_id in 1, 2:
        sessions.register(broker_id, fenced=False)
        sessions.report(broker_id, fenced=False, offset=50)
    sessions.maintain_controlled_shutdown_offset(1, 20)
    assert sessions.may_shut_down(1)
    sessions.register(2, fenced=False)
    assert not sessions.may_shut_down(1)


def test_a_broker_in_controlled_shutdown_gets_no_new_replicas(sessions: BrokerSessions) -> None:
    for broker_id in 1, 2, 3:
        sessions.register(broker_id, fenced=broker_id == 3)
    sessions.maintain_controlled_shutdown_offset(1, 20)
    assert sessions.usable() == {2: False, 3: True}


def test_a_controller_stall_expires_no_session(sessions: BrokerSessions) -> None:
    sessions.touch(BrokerIdAndEpoch(1, 0), 0)
    sessions.touch(BrokerIdAndEpoch(2, 0), 5_000)
    sessions.extend_all(20_000, 25_000)
    assert sessions.expired(25_000) is None
    assert sessions.expired(29_000) is None
    assert sessions.expired(29_001) == BrokerIdAndEpoch(1, 0)
    sessions.forget(BrokerIdAndEpoch(1, 0))
    assert sessions.expired(34_000) is None
    assert sessions.expired(34_001) == BrokerIdAndEpoch(2, 0)


def test_a_heartbeat_after_a_stall_starts_its_session_now(sessions: BrokerSessions) -> None:
    sessions.touch(BrokerIdAndEpoch(1, 0), 20_000)
    sessions.extend_all(15_000, 20_100)
    assert sessions.is_valid(BrokerIdAndEpoch(1, 0), 29_100)
    assert sessions.expired(29_101) == BrokerIdAndEpoch(1, 0)

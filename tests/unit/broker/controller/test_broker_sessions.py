"""Rules: a session lasts by contact of its own epoch; the longest silent goes first; who shuts down waits for what the others have read."""

from __future__ import annotations

import pytest

from ottla.broker.controller.broker_sessions import BrokerSessions, BrokerState, Contact


@pytest.fixture
def sessions() -> BrokerSessions:
    return BrokerSessions(session_timeout_ms=9_000)


def test_a_session_is_over_one_moment_after_its_timeout(sessions: BrokerSessions) -> None:
    sessions.touch(Contact(1, 5), 100)
    assert sessions.is_valid(Contact(1, 5), 9_100)
    assert sessions.expired(9_100) is None
    assert not sessions.is_valid(Contact(1, 5), 9_101)
    assert sessions.expired(9_101) == Contact(1, 5)


def test_who_beats_with_another_epoch_keeps_no_session_alive(sessions: BrokerSessions) -> None:
    sessions.touch(Contact(1, 5), 0)
    sessions.touch(Contact(1, 4), 9_000)
    assert not sessions.is_valid(Contact(1, 5), 9_001)
    assert sessions.expired(9_001) == Contact(1, 5)


def test_the_session_that_was_silent_for_the_longest_ends_first(sessions: BrokerSessions) -> None:
    for broker_id in 1, 2, 3:
        sessions.touch(Contact(broker_id, 0), broker_id)
    sessions.touch(Contact(1, 0), 4)
    assert sessions.expired(20_000) == Contact(2, 0)
    sessions.forget(Contact(2, 0))
    assert sessions.expired(20_000) == Contact(3, 0)
    sessions.forget(Contact(3, 0))
    assert sessions.expired(20_000) == Contact(1, 0)


def test_a_broker_that_shuts_down_ends_when_every_active_one_has_read_what_moved(sessions: BrokerSessions) -> None:
    for broker_id in 1, 2, 3, 4:
        sessions.register(broker_id, fenced=broker_id == 4)
        sessions.told(broker_id, fenced=broker_id == 4, offset=10)
    sessions.shut_down_at(1, 20)
    assert sessions.state(1) is BrokerState.CONTROLLED_SHUTDOWN
    assert not sessions.may_end(1)
    sessions.told(2, fenced=False, offset=20)
    assert not sessions.may_end(1)
    sessions.told(3, fenced=False, offset=25)
    assert sessions.may_end(1)


def test_the_first_offset_of_a_shutdown_counts(sessions: BrokerSessions) -> None:
    for broker_id in 1, 2:
        sessions.register(broker_id, fenced=False)
    sessions.shut_down_at(1, 20)
    sessions.shut_down_at(1, 40)
    sessions.told(2, fenced=False, offset=20)
    assert sessions.may_end(1)


def test_a_broker_that_is_fenced_is_not_shutting_down_any_more(sessions: BrokerSessions) -> None:
    sessions.register(1, fenced=False)
    sessions.shut_down_at(1, 20)
    sessions.register(1, fenced=True)
    assert sessions.state(1) is BrokerState.FENCED


def test_a_changed_registration_makes_what_its_broker_had_read_unknown_until_it_beats(sessions: BrokerSessions) -> None:
    for broker_id in 1, 2:
        sessions.register(broker_id, fenced=False)
        sessions.told(broker_id, fenced=False, offset=50)
    sessions.shut_down_at(1, 20)
    assert sessions.may_end(1)
    sessions.register(2, fenced=False)
    assert not sessions.may_end(1)


def test_a_broker_that_shuts_down_gets_no_new_replicas(sessions: BrokerSessions) -> None:
    for broker_id in 1, 2, 3:
        sessions.register(broker_id, fenced=broker_id == 3)
    sessions.shut_down_at(1, 20)
    assert sessions.usable() == {2: False, 3: True}


def test_time_in_which_the_controller_did_not_run_ends_no_session(sessions: BrokerSessions) -> None:
    sessions.touch(Contact(1, 0), 0)
    sessions.touch(Contact(2, 0), 5_000)
    sessions.not_listened(20_000, 25_000)
    assert sessions.expired(25_000) is None
    assert sessions.expired(29_000) is None
    assert sessions.expired(29_001) == Contact(1, 0)
    sessions.forget(Contact(1, 0))
    assert sessions.expired(34_000) is None
    assert sessions.expired(34_001) == Contact(2, 0)


def test_a_heartbeat_after_a_stall_begins_no_session_in_the_future(sessions: BrokerSessions) -> None:
    sessions.touch(Contact(1, 0), 20_000)
    sessions.not_listened(15_000, 20_100)
    assert sessions.is_valid(Contact(1, 0), 29_100)
    assert sessions.expired(29_101) == Contact(1, 0)

from __future__ import annotations

from functools import cache

import pytest

from ottla.broker.replication.follower_session import FollowerSession
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition

A, B, C = (b"a" * 16, 0), (b"a" * 16, 1), (b"b" * 16, 0)


@cache
def asks(offset: int) -> FetchPartition:
    return FetchPartition(0, 7, offset, 1, 0, 1000)


def begun(session_id: int = 5) -> FollowerSession:
    session = FollowerSession()
    session.next({A: asks(0), B: asks(0)})
    assert session.handle_response(0, session_id, [A, B])
    return session


def test_first_request_names_all_partitions_and_requests_a_session() -> None:
    session = FollowerSession()
    assert session.next({A: asks(0), B: asks(0)}) == ({A: asks(0), B: asks(0)}, [])
    assert (session.session_id, session.epoch) == (0, 0)


def test_next_request_names_new_changed_and_removed_partitions() -> None:
    session = begun()
    assert (session.session_id, session.epoch) == (5, 1)
    assert session.next({A: asks(0), C: asks(3), B: None}) == ({C: asks(3)}, [B])
    assert session.handle_response(0, 5, [C])
    assert session.epoch == 2
    assert session.next({A: asks(1), C: asks(3)}) == ({A: asks(1)}, [])
    assert session.handle_response(0, 5, [])
    assert session.next({A: asks(1), C: asks(3)}) == ({}, [])
    assert session.next({}) == ({}, []), "what may not have changed need not be looked at"
    assert session.session_partitions == {A: asks(1), C: asks(3)}


def test_a_partition_that_is_not_to_be_fetched_is_not_named() -> None:
    session = FollowerSession()
    assert session.is_full
    assert session.next({A: asks(0), B: None}) == ({A: asks(0)}, [])
    assert session.handle_response(0, 5, [A])
    assert not session.is_full
    assert session.next({B: None, C: None}) == ({}, [])


def test_leader_without_sessions_gets_every_partition_each_time() -> None:
    session = begun(session_id=0)
    assert session.epoch == 0
    assert session.next({A: asks(0)}) == ({A: asks(0)}, [])


def test_session_ended_by_the_leader_is_started_again() -> None:
    session = begun()
    session.next({A: asks(0)})
    assert session.handle_response(0, 0, [A])
    assert (session.session_id, session.epoch) == (0, 0)


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 5), (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 5)],
)
def test_request_after_an_error_closes_the_session_and_starts_another(error: ErrorCode, session_id: int) -> None:
    session = begun()
    session.next({A: asks(0)})
    assert not session.handle_response(error, 0, [])
    assert (session.session_id, session.epoch) == (session_id, 0)
    assert session.next({A: asks(0)}) == ({A: asks(0)}, [])


def test_request_after_a_failed_one_names_all_partitions_again() -> None:
    session = begun()
    session.next({A: asks(9), B: asks(0)})
    session.failed()
    assert (session.session_id, session.epoch) == (5, 0)
    assert session.next({A: asks(9), B: asks(0)}) == ({A: asks(9), B: asks(0)}, [])


@pytest.mark.parametrize("keys", [[A], [A, B, C], [A, C]])
def test_response_to_a_full_request_must_have_all_its_partitions(keys: list[tuple[bytes, int]]) -> None:
    session = FollowerSession()
    session.next({A: asks(0), B: asks(0)})
    assert not session.handle_response(0, 5, keys)
    assert session.epoch == 0


def test_response_with_a_partition_outside_the_session_is_rejected() -> None:
    session = begun()
    session.next({B: None})
    assert not session.handle_response(0, 5, [B])
    assert session.epoch == 0


def test_session_epoch_wraps_to_1() -> None:
    session = begun()
    session.epoch = 2**31 - 1
    session.next({A: asks(0)})
    assert session.handle_response(0, 5, [])
    assert session.epoch == 1

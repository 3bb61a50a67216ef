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


def test_the_first_request_names_all_and_asks_for_a_session() -> None:
    session = FollowerSession()
    assert session.next({A: asks(0), B: asks(0)}) == ({A: asks(0), B: asks(0)}, [])
    assert (session.session_id, session.epoch) == (0, 0)


def test_the_next_names_what_is_new_or_changed_and_what_is_gone() -> None:
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
    assert session.names_all
    assert session.next({A: asks(0), B: None}) == ({A: asks(0)}, [])
    assert session.handle_response(0, 5, [A])
    assert not session.names_all
    assert session.next({B: None, C: None}) == ({}, [])


def test_a_leader_that_gives_no_session_is_told_everything_each_time() -> None:
    session = begun(session_id=0)
    assert session.epoch == 0
    assert session.next({A: asks(0)}) == ({A: asks(0)}, [])


def test_a_session_that_the_leader_ends_is_begun_again() -> None:
    session = begun()
    session.next({A: asks(0)})
    assert session.handle_response(0, 0, [A])
    assert (session.session_id, session.epoch) == (0, 0)


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 5), (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 5)],
)
def test_after_an_error_the_next_request_closes_the_session_and_begins_another(error: ErrorCode, session_id: int) -> None:
    session = begun()
    session.next({A: asks(0)})
    assert not session.handle_response(error, 0, [])
    assert (session.session_id, session.epoch) == (session_id, 0)
    assert session.next({A: asks(0)}) == ({A: asks(0)}, [])


def test_after_a_request_of_which_nothing_is_known_all_is_named_again() -> None:
    session = begun()
    session.next({A: asks(9), B: asks(0)})
    session.failed()
    assert (session.session_id, session.epoch) == (5, 0)
    assert session.next({A: asks(9), B: asks(0)}) == ({A: asks(9), B: asks(0)}, [])


@pytest.mark.parametrize("keys", [[A], [A, B, C], [A, C]])
def test_an_answer_to_a_whole_request_is_for_all_that_it_named(keys: list[tuple[bytes, int]]) -> None:
    session = FollowerSession()
    session.next({A: asks(0), B: asks(0)})
    assert not session.handle_response(0, 5, keys)
    assert session.epoch == 0


def test_an_answer_for_a_partition_that_is_not_in_the_session_is_not_used() -> None:
    session = begun()
    session.next({B: None})
    assert not session.handle_response(0, 5, [B])
    assert session.epoch == 0


def test_epochs_begin_again_with_one() -> None:
    session = begun()
    session.epoch = 2**31 - 1
    session.next({A: asks(0)})
    assert session.handle_response(0, 5, [])
    assert session.epoch == 1

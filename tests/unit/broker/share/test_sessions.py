from __future__ import annotations

import pytest

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.share.sessions import ShareSession, ShareSessions, TopicPartition
from ottla.protocol.error_codes import ErrorCode

A, B = TopicPartition(b"a" * 16, 0), TopicPartition(b"a" * 16, 1)


def error(sessions: ShareSessions, epoch: int, member: str = "m") -> ErrorCode:
    with pytest.raises(Rejected) as refused:
        sessions.check("g", member, epoch)
    return refused.value.code


def test_a_session_is_found_by_its_member_and_its_epoch() -> None:
    sessions = ShareSessions(2)
    session = sessions.begin("g", "m", [(A, "t")])
    assert sessions.check("g", "m", 1) is session
    assert sessions.check("g", "m", -1) is session
    assert error(sessions, 2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert error(sessions, 1, "n") is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_epochs_wrap_to_1() -> None:
    session = ShareSession("g", "m", epoch=2**31 - 1)
    session.next_epoch()
    assert session.epoch == 1


def test_full_cache_rejects_another_member_and_accepts_a_new_session_of_a_known_one() -> None:
    sessions = ShareSessions(1)
    first = sessions.begin("g", "m", [])
    with pytest.raises(Rejected) as refused:
        sessions.begin("g", "n", [])
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert sessions.begin("g", "m", []) is not first
    assert len(sessions) == 1


def test_a_group_has_members_until_its_last_session_ends() -> None:
    sessions = ShareSessions(3)
    sessions.begin("g", "m", [(A, "t"), (B, "t")])
    sessions.begin("g", "n", [(A, "t")])
    assert sessions.partition_count == 3
    sessions.remove("g", "m")
    assert sessions.has_members("g")
    sessions.remove("g", "n")
    assert sessions.remove("g", "n") is None
    assert not sessions.has_members("g")


def test_sessions_that_weigh_too_much_take_no_more_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = ShareSessions(9)
    session = sessions.begin("g", "m", [(A, "t")])
    monkeypatch.setattr(limits, "SHARE_SESSION_BYTES_MAX", sessions.weight_bytes + limits.SHARE_SESSION_PARTITION_BYTES)
    with pytest.raises(Rejected) as refused:
        sessions.update(session, [(B, "t"), (TopicPartition(b"b" * 16, 0), None)], [A])
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert list(session.partitions) == [A]
    sessions.update(session, [(A, "t"), (B, "t")], [])
    with pytest.raises(Rejected):
        sessions.begin("g", "n", [])
    sessions.update(session, [], [A, B])
    sessions.remove("g", "m")
    assert sessions.weight_bytes == 0


def test_a_response_omits_partitions_without_news() -> None:
    sessions = ShareSessions(1)
    session = sessions.begin("g", "m", [])
    sessions.update(session, [(A, "t")], [])
    assert session.maybe_update_response_data(A, has_records=False, has_error=False), "it is new in the session"
    assert not session.maybe_update_response_data(A, has_records=False, has_error=False)
    assert session.maybe_update_response_data(A, has_records=False, has_error=True)
    assert session.maybe_update_response_data(A, has_records=False, has_error=False), "the error is over"
    assert not session.maybe_update_response_data(B, has_records=True, has_error=False), "it was forgotten"


def test_a_partition_with_records_moves_to_the_end() -> None:
    sessions = ShareSessions(1)
    session = sessions.begin("g", "m", [(A, "t"), (B, "t")])
    session.maybe_update_response_data(A, has_records=True, has_error=False)
    assert list(session.partitions) == [B, A]
    sessions.update(session, [], [B])
    assert list(session.partitions) == [A]

"""The groups and offsets of one partition: commits, fetches, deletions, expiry and loading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.classic import ClassicConfig, ClassicGroup, LeavingMember, SyncRequest
from ottla.broker.groups.classic_join import JoinRequest
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.coordinator import Commit, FetchedOffset, GroupCoordinator, GroupsConfig, OffsetToCommit
from ottla.broker.groups.group_records import GroupMetadataKey, GroupMetadataValue, GroupRecord, OffsetCommitKey
from ottla.broker.groups.results import JoinGroupResult
from ottla.broker.groups.states import ClassicState, Now
from ottla.protocol.error_codes import ErrorCode
from tests.support.classic_groups import WALL_MS, join_request, subscription

T = TypeVar("T")
DAY_MS = 24 * 60 * 60 * 1000


class Driver:
    """A stand-in for the runtime, which appends and applies every decision at once."""

    def __init__(self, config: GroupsConfig | None = None) -> None:
        self.machine = GroupCoordinator(config or GroupsConfig())
        self.log: list[tuple[GroupRecord, int]] = []
        self.now = Now(0, WALL_MS)

    def run(self, effects: Effects[GroupRecord, T], producer_id: int = -1) -> T:
        for record in effects.records:
            self.machine.apply(record, len(self.log), producer_id)
            self.log.append((record, producer_id))
        return effects.response

    def pass_ms(self, delta_ms: int) -> None:
        self.now = Now(self.now.mono_ms + delta_ms, self.now.wall_ms + delta_ms)

    def commit(self, *offsets: OffsetToCommit, producer_id: int = -1, **changes: object) -> list[ErrorCode]:
        fields: dict[str, object] = {"group_id": "g", "offsets": list(offsets), "transactional": producer_id != -1}
        return self.run(self.machine.commit(Commit(**(fields | changes)), self.now), producer_id)  # type: ignore[arg-type]  # named by the tests

    def fetch(self, *partitions: int, topic: str = "t", require_stable: bool = False) -> list[FetchedOffset]:
        ((_, fetched),) = self.run(self.machine.fetch("g", [(topic, list(partitions))], require_stable=require_stable))
        return fetched

    def member(self, topics: Sequence[str] = ("t",), protocol_type: str = "consumer", session_timeout_ms: int = 10_000) -> str:
        join_request = JoinRequest(
            member_id="",
            new_member_id="m",
            client_id="c",
            client_host="/h",
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=30_000,
            protocol_type=protocol_type,
            protocols=(JoinProtocol("range", subscription(*topics)),),
        )
        ((_, answer),) = self.run(self.machine.join("g", join_request, 1, self.now))
        assert isinstance(answer, JoinGroupResult)
        if answer.error is ErrorCode.NONE:
            self.run(self.machine.sync("g", SyncRequest(member_id="m", generation=answer.generation, assignments={"m": b"a"}), 2, self.now))
        return answer.error.name if answer.error else "m"

    def leave(self) -> None:
        self.run(self.machine.leave("g", [LeavingMember("m")], self.now)[1])


def at(partition: int, offset: int, *, topic: str = "t", metadata: str | None = None) -> OffsetToCommit:
    return OffsetToCommit(topic, partition, offset, 3, metadata)


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_an_offset_of_an_earlier_topic_id_is_ignored(driver: Driver) -> None:
    driver.commit(OffsetToCommit("t", 0, 5, topic_id=b"\1" * 16), OffsetToCommit("t", 1, 6))
    for topic_id, offsets in ((b"\1" * 16, [5, 6]), (b"\2" * 16, [-1, 6]), (bytes(16), [5, 6])):
        ((_, found),) = driver.run(driver.machine.fetch("g", [("t", [0, 1])], require_stable=True, topic_ids={"t": topic_id}))
        assert [one.offset for one in found] == offsets


def test_a_commit_to_an_unknown_group_creates_a_simple_group(driver: Driver) -> None:
    assert driver.commit(at(0, 5, metadata="note")) == [ErrorCode.NONE]
    assert driver.machine.groups["g"].is_simple
    assert driver.fetch(0) == [FetchedOffset(0, 5, 3, "note")]


@pytest.mark.parametrize("error", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_ID_NOT_FOUND])
def test_a_commit_with_a_generation_to_an_unknown_group_is_refused(error: ErrorCode) -> None:
    with pytest.raises(Rejected) as refused:
        Driver().commit(at(0, 5), generation=3, unknown_group_error=error)
    assert refused.value.code is error


def test_a_commit_of_an_unknown_member_is_refused_entirely(driver: Driver) -> None:
    driver.member()
    with pytest.raises(Rejected) as refused:
        driver.commit(at(0, 5), member_id="stranger", generation=1)
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.fetch(0) == [FetchedOffset(0)]


def test_a_commit_extends_the_members_session(driver: Driver) -> None:
    driver.member()
    driver.pass_ms(9_999)
    driver.commit(at(0, 5), member_id="m", generation=1)
    assert driver.machine.groups["g"].next_deadline() == 19_999


def test_metadata_may_be_as_long_as_allowed_counted_in_utf_16() -> None:
    driver = Driver(GroupsConfig(offset_metadata_max=4))
    errors = driver.commit(at(0, 1, metadata="abcd"), at(1, 1, metadata="abcde"), at(2, 1, metadata="😀😀"), at(3, 1, metadata="😀😀x"))
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert errors == [ErrorCode.NONE, too_large, ErrorCode.NONE, too_large]
    assert [one.offset for one in driver.fetch(0, 1, 2, 3)] == [1, -1, 1, -1]


def test_null_metadata_is_returned_as_empty(driver: Driver) -> None:
    driver.commit(at(0, 1, metadata=None))
    assert driver.fetch(0)[0].metadata == ""


def test_an_uncommitted_offset_is_minus_1_without_an_error() -> None:
    assert Driver().fetch(0, 7) == [FetchedOffset(0), FetchedOffset(7)]
    assert FetchedOffset(0) == FetchedOffset(0, -1, -1, "", ErrorCode.NONE)


def test_without_topics_all_offsets_are_fetched(driver: Driver) -> None:
    driver.commit(at(0, 1), at(1, 2), at(0, 3, topic="u"))
    fetched = driver.run(driver.machine.fetch("g", None, require_stable=False))
    assert [(topic, [(one.partition, one.offset) for one in offsets]) for topic, offsets in fetched] == [
        ("t", [(0, 1), (1, 2)]),
        ("u", [(0, 3)]),
    ]
    assert driver.run(driver.machine.fetch("unknown", None, require_stable=False)) == []


def test_a_pending_offset_is_unstable_with_require_stable(driver: Driver) -> None:
    driver.commit(at(0, 1))
    driver.commit(at(0, 2), producer_id=7)
    assert driver.fetch(0)[0].offset == 1
    assert driver.fetch(0, 1, require_stable=True) == [FetchedOffset(0, error=ErrorCode.UNSTABLE_OFFSET_COMMIT), FetchedOffset(1)]
    driver.machine.end_transaction(7, commit=True)
    assert driver.fetch(0, require_stable=True)[0].offset == 2


# --- deletion -----------------------------------------------------------------------------------------------------------------------


def test_deleting_a_group_removes_its_offsets_and_record(driver: Driver) -> None:
    driver.commit(at(0, 1), at(1, 2))
    driver.run(driver.machine.delete_group("g"))
    assert "g" not in driver.machine.groups
    assert driver.fetch(0, 1) == [FetchedOffset(0), FetchedOffset(1)]
    assert [record.value for record, _ in driver.log[2:]] == [None, None, None]
    assert driver.log[-1][0].key == GroupMetadataKey("g")


def test_a_group_with_members_cannot_be_deleted_and_an_unknown_one_is_not_found(driver: Driver) -> None:
    driver.member()
    with pytest.raises(Rejected) as refused:
        driver.machine.delete_group("g")
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    with pytest.raises(Rejected) as refused:
        driver.machine.delete_group("h")
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_topics_that_a_live_consumer_reads_are_not_deleted(driver: Driver) -> None:
    driver.member(topics=["t"])
    driver.commit(at(0, 1), at(0, 2, topic="old"), member_id="m", generation=1)
    errors = driver.run(driver.machine.delete_offsets("g", [("t", [0]), ("old", [0, 9])]))
    assert errors == [("t", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC), ("old", ErrorCode.NONE)]
    assert driver.fetch(0)[0].offset == 1
    assert driver.fetch(0, topic="old")[0].offset == -1
    assert driver.log[-1][0].key == OffsetCommitKey("g", "old", 0), "no tombstone for what was not there"


def test_offsets_of_an_active_non_consumer_group_cannot_be_deleted(driver: Driver) -> None:
    driver.member(protocol_type="connect")
    with pytest.raises(Rejected) as refused:
        driver.machine.delete_offsets("g", [("t", [0])])
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize(("group_id", "error"), [("", ErrorCode.INVALID_GROUP_ID), ("h", ErrorCode.GROUP_ID_NOT_FOUND)])
def test_offsets_of_an_unknown_group_cannot_be_deleted(group_id: str, error: ErrorCode) -> None:
    with pytest.raises(Rejected) as refused:
        Driver().machine.delete_offsets(group_id, [("t", [0])])
    assert refused.value.code is error


def test_a_deleted_topics_offsets_are_removed_from_all_groups(driver: Driver) -> None:
    driver.commit(at(0, 1), at(0, 2, topic="u"))
    driver.commit(at(3, 4), group_id="h")
    driver.run(driver.machine.forget_topic("t", bytes(16)))
    assert driver.fetch(0)[0].offset == -1
    assert driver.fetch(0, topic="u")[0].offset == 2
    assert driver.machine.offsets.committed.get("h", "t", 3) is None


# --- expiry -------------------------------------------------------------------------------------------------------------------------


def expire(driver: Driver) -> None:
    driver.run(driver.machine.expire_offsets(driver.now))


def test_a_simple_groups_offsets_expire_by_age_and_the_last_removes_the_group(driver: Driver) -> None:
    driver.commit(at(0, 1))
    driver.pass_ms(DAY_MS)
    driver.commit(at(1, 1))
    driver.pass_ms(6 * DAY_MS - 1)
    expire(driver)
    assert [one.offset for one in driver.fetch(0, 1)] == [1, 1]
    driver.pass_ms(1)
    expire(driver)
    assert [one.offset for one in driver.fetch(0, 1)] == [-1, 1]
    assert "g" in driver.machine.groups
    driver.pass_ms(DAY_MS)
    expire(driver)
    assert "g" not in driver.machine.groups


def test_an_empty_groups_offsets_expire_together(driver: Driver) -> None:
    driver.member()
    driver.commit(at(0, 1), member_id="m", generation=1)
    driver.pass_ms(3 * DAY_MS)
    driver.leave()
    assert driver.machine.groups["g"].state is ClassicState.EMPTY
    driver.pass_ms(7 * DAY_MS - 1)
    expire(driver)
    assert driver.fetch(0)[0].offset == 1
    driver.pass_ms(1)
    expire(driver)
    assert driver.fetch(0)[0].offset == -1
    assert "g" not in driver.machine.groups


def test_a_stable_groups_offsets_of_unsubscribed_topics_expire(driver: Driver) -> None:
    driver.member(topics=["t"])
    driver.commit(at(0, 1), at(0, 2, topic="old"), member_id="m", generation=1)
    driver.pass_ms(7 * DAY_MS)
    expire(driver)
    assert driver.fetch(0)[0].offset == 1
    assert driver.fetch(0, topic="old")[0].offset == -1
    assert "g" in driver.machine.groups


def test_a_stable_non_consumer_groups_offsets_never_expire(driver: Driver) -> None:
    driver.member(protocol_type="connect")
    driver.commit(at(0, 1), member_id="m", generation=1)
    driver.pass_ms(70 * DAY_MS)
    expire(driver)
    assert driver.fetch(0)[0].offset == 1


def test_an_offset_with_a_retention_time_expires_then(driver: Driver) -> None:
    driver.commit(at(0, 1), retention_ms=1_000)
    driver.pass_ms(1_000)
    expire(driver)
    assert driver.fetch(0)[0].offset == -1


def test_an_offset_with_a_retention_beyond_the_largest_time_is_kept(driver: Driver) -> None:
    driver.commit(at(0, 1), retention_ms=2**63 - 1)
    driver.pass_ms(70 * DAY_MS)
    expire(driver)
    assert driver.fetch(0)[0].offset == 1


def test_an_offset_with_a_pending_one_does_not_expire_and_keeps_its_group(driver: Driver) -> None:
    driver.commit(at(0, 1))
    driver.commit(at(0, 2), at(1, 2), producer_id=7)
    driver.pass_ms(70 * DAY_MS)
    expire(driver)
    assert driver.fetch(0)[0].offset == 1
    assert "g" in driver.machine.groups


def test_a_group_with_a_pending_member_is_not_deleted(driver: Driver) -> None:
    driver.machine.join(
        "g",
        JoinRequest(
            member_id="",
            new_member_id="m",
            client_id="c",
            client_host="/h",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=1,
            protocol_type="consumer",
            protocols=(JoinProtocol("range", b""),),
            require_known_member_id=True,
        ),
        1,
        driver.now,
    )
    expire(driver)
    assert "g" in driver.machine.groups


# --- joining by way of the coordinator ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("timeout_ms", "fits"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)])
def test_the_session_timeout_must_be_within_its_bounds(timeout_ms: int, fits: bool) -> None:
    assert Driver().member(session_timeout_ms=timeout_ms) == ("m" if fits else "INVALID_SESSION_TIMEOUT")


def test_requests_for_unknown_or_empty_group_ids_are_refused(driver: Driver) -> None:
    machine, now = driver.machine, driver.now
    sync_request = SyncRequest(member_id="m", generation=1)
    assert machine.sync("", sync_request, 1, now).response[0].result.error is ErrorCode.INVALID_GROUP_ID
    assert machine.sync("g", sync_request, 1, now).response[0].result.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert machine.heartbeat("", "m", None, 1, now) is ErrorCode.INVALID_GROUP_ID
    assert machine.heartbeat("g", "m", None, 1, now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert machine.leave("g", [LeavingMember("m")], now)[0] == [ErrorCode.UNKNOWN_MEMBER_ID]
    with pytest.raises(Rejected):
        machine.leave("", [LeavingMember("m")], now)
    assert machine.groups == {}


# --- reading back ---------------------------------------------------------------------------------------------------------------------


def test_loading_the_log_restores_groups_and_offsets(driver: Driver) -> None:
    driver.commit(at(0, 1), at(1, 2))
    driver.member()
    driver.commit(at(0, 9), member_id="m", generation=1)
    driver.commit(at(5, 5), producer_id=7)
    driver.commit(at(2, 2), group_id="h")
    driver.run(driver.machine.delete_group("h"))
    restored = GroupCoordinator(GroupsConfig())
    for offset, (record, producer_id) in enumerate(driver.log):
        restored.apply(record, offset, producer_id)
    restored.on_loaded(driver.now)
    assert list(restored.offsets.committed) == list(driver.machine.offsets.committed)
    assert restored.offsets.has_pending("g", "t", 5)
    assert restored.groups.keys() == {"g"}
    assert restored.groups["g"].heartbeat("m", None, 1, driver.now) is ErrorCode.NONE


def test_tombstones_of_unknown_keys_are_ignored() -> None:
    restored = GroupCoordinator(GroupsConfig())
    restored.apply(GroupRecord(GroupMetadataKey("g"), None), 0)
    restored.apply(GroupRecord(OffsetCommitKey("g", "t", 0), None), 1)
    assert restored.groups == {}


@pytest.mark.parametrize(
    ("changes", "delay_ms"),
    [({"require_known_member_id": True}, 0), ({}, 3_000), ({}, 0), ({"protocols": ()}, 0)],
    ids=["asked to come again", "waits", "leads at once", "refused"],
)
def test_the_first_record_of_a_classic_group_creates_it(changes: dict[str, Any], delay_ms: int) -> None:
    driver = Driver(GroupsConfig(classic=ClassicConfig(initial_rebalance_delay_ms=delay_ms)))
    driver.run(driver.machine.join("g", join_request(**changes), 1, driver.now))
    assert [record for record, _ in driver.log] == [GroupRecord(GroupMetadataKey("g"), GroupMetadataValue(current_state_timestamp=WALL_MS))]
    restored = GroupCoordinator(GroupsConfig())
    restored.apply(driver.log[0][0], 0)
    assert restored.groups["g"].is_empty


def test_the_first_record_keeps_members_that_joined_meanwhile() -> None:
    driver = Driver(GroupsConfig(classic=ClassicConfig(initial_rebalance_delay_ms=0)))
    (reply,) = driver.run(driver.machine.join("g", join_request(), 1, driver.now))
    assert isinstance(reply.result, JoinGroupResult)
    group = driver.machine.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (reply.result.generation, group.generation, group.state) == (1, 1, ClassicState.COMPLETING_REBALANCE)
    assert driver.machine.heartbeat("g", "m", None, 1, driver.now) is ErrorCode.NONE


def test_a_simple_groups_first_record_is_its_first_generation() -> None:
    driver = Driver(GroupsConfig(classic=ClassicConfig(initial_rebalance_delay_ms=0)))
    driver.commit(OffsetToCommit("t", 0, 1))
    driver.run(driver.machine.join("g", join_request(), 1, driver.now))
    assert len(driver.log) == 1

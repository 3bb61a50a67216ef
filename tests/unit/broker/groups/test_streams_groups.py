from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.classic import ClassicGroup
from ottla.broker.groups.classic_join import JoinRequest
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.consumer_heartbeat import Heartbeat
from ottla.broker.groups.coordinator import Commit, OffsetToCommit
from ottla.broker.groups.deadlines import DeadlineKind
from ottla.broker.groups.results import JoinGroupResult
from ottla.broker.groups.share_heartbeat import ShareHeartbeat
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.support.streams_groups import StreamsDriver, active

JOINING = JoinRequest(
    member_id="",
    instance_id=None,
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=10_000,
    session_timeout_ms=10_000,
    protocol_type="consumer",
    protocols=(JoinProtocol("range", b""),),
    new_member_id="new",
)


def commit(driver: StreamsDriver, member_id: str = "", generation: int = -1) -> None:
    wanted = Commit(group_id="g", generation=generation, member_id=member_id, offsets=[OffsetToCommit("t", 0, 7)])
    driver.take(driver.machine.commit(wanted, driver.now).records)


def join_classic(driver: StreamsDriver, **changes: Any) -> ErrorCode:
    """Join a classic member and return the error."""
    effects = driver.machine.join("g", replace(JOINING, **changes), "request-key", driver.now)
    driver.take(effects.records)
    (reply,) = effects.response
    assert isinstance(reply.result, JoinGroupResult)
    return reply.result.error


def test_the_group_equals_its_replay() -> None:
    driver = StreamsDriver()
    for member_id in ("a", "b"):
        driver.join(member_id)
    driver.settle()
    driver.beat("a", -1)
    replayed = driver.replayed()
    assert replayed is not None
    live = {name: value for name, value in vars(driver.group).items() if name not in {"configured", "topics_version", "endpoint_epoch"}}
    assert {name: value for name, value in vars(replayed).items() if name in live} == live


def test_member_sessions_and_revocation_timeouts_continue_after_a_load() -> None:
    driver = StreamsDriver()
    driver.join("a", rebalance_timeout_ms=20_000)
    driver.join("b")
    driver.beat("a", 2)
    driver.restart()
    deadlines = driver.machine.streams.deadlines["g"]
    assert deadlines.get(DeadlineKind.REBALANCE, "a") == 20_000
    assert deadlines.get(DeadlineKind.SESSION, "b") == 45_000
    assert driver.confirm("a").epoch == 3


def test_an_empty_classic_group_is_replaced_and_its_offsets_stay() -> None:
    driver = StreamsDriver()
    commit(driver)
    assert isinstance(driver.machine.groups["g"], ClassicGroup)
    driver.join("a")
    assert driver.kinds[0] == "GroupMetadata-"
    assert driver.group.members.keys() == {"a"}
    assert driver.machine.offsets.committed.get("g", "t", 0) is not None
    assert driver.replayed() is not None


def test_a_classic_group_with_members_is_not_found() -> None:
    driver = StreamsDriver()
    assert join_classic(driver) is ErrorCode.NONE
    with pytest.raises(Rejected, match="Group g is not a streams group") as rejected:
        driver.join("a")
    assert rejected.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_unknown_group_is_not_found() -> None:
    driver = StreamsDriver()
    for epoch, message in ((1, "Streams group g not found."), (-1, "Group g not found.")):
        with pytest.raises(Rejected, match=message):
            driver.beat("a", epoch)


def test_a_classic_member_replaces_an_empty_streams_group_only() -> None:
    driver = StreamsDriver()
    driver.join("a")
    assert join_classic(driver) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    driver.beat("a", -1)
    assert join_classic(driver, member_id="known") is ErrorCode.UNKNOWN_MEMBER_ID
    assert join_classic(driver) is ErrorCode.NONE
    assert driver.kinds == ["TargetAssignmentMetadata-", "Metadata-", "Topology-", "GroupMetadata"]
    assert isinstance(driver.machine.groups["g"], ClassicGroup)
    assert "g" not in driver.machine.streams.deadlines


def test_members_of_other_protocols_do_not_find_the_group() -> None:
    driver = StreamsDriver()
    driver.join("a")
    machine, now = driver.machine, driver.now
    beat = Heartbeat(group_id="g", member_id="m", epoch=0, rebalance_timeout_ms=1, topic_names=frozenset({"t"}), owned={})
    with pytest.raises(Rejected, match="is not a consumer group"):
        machine.consumer_heartbeat(beat, now)
    with pytest.raises(Rejected, match="is not a share group"):
        machine.shares.heartbeat(ShareHeartbeat(group_id="g", member_id="m", epoch=0, topic_names=frozenset({"t"})), now)
    assert machine.heartbeat("g", "a", None, 1, now) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_are_committed_by_members_and_kept_for_the_topology() -> None:
    driver = StreamsDriver()
    driver.join("a")
    with pytest.raises(Rejected, match="UNKNOWN_MEMBER_ID"):
        commit(driver)
    commit(driver, "a", 2)
    errors = driver.machine.delete_offsets("g", [("t", [0]), ("u", [0])]).response
    assert errors == [("t", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC), ("u", ErrorCode.NONE)]
    (_, (fetched,)) = driver.machine.fetch("g", None, require_stable=False, member_id="a", member_epoch=2).response[0]
    assert fetched.offset == 7
    with pytest.raises(Rejected, match="STALE_MEMBER_EPOCH"):
        driver.machine.fetch("g", None, require_stable=False, member_id="a", member_epoch=1)


def test_a_group_is_deleted_when_its_members_have_left() -> None:
    driver = StreamsDriver()
    driver.join("a")
    with pytest.raises(Rejected, match="NON_EMPTY_GROUP"):
        driver.machine.delete_group("g")
    driver.beat("a", -1)
    driver.take(driver.machine.delete_group("g").records)
    assert driver.machine.groups == {}
    assert driver.replayed() is None


def test_a_decision_whose_write_failed_is_made_again() -> None:
    driver = StreamsDriver()
    driver.join("a")
    driver.topics.set("t", 3)
    beat = StreamsGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=2)
    driver.machine.streams.heartbeat(beat, "c", "/h", driver.now)
    driver.machine.on_write_failed("g", driver.now)
    assert driver.confirm("a").tasks == active(0, 1, 2)

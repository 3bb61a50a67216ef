"""Share partitions of a group: initialization, altered and deleted offsets, deleted topics and groups."""

from __future__ import annotations

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.classic_join import JoinRequest
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.coordinator import Commit
from ottla.broker.groups.results import JoinGroupResult
from ottla.broker.groups.share_group import SharedTopic
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import topic_id
from tests.support.share_groups import ShareDriver

T, U = topic_id("t"), topic_id("u")
BOTH = SharedTopic("t", frozenset({0, 1}))


def left_alone(driver: ShareDriver) -> ShareDriver:
    """Return the driver of a group whose only member has left; its partitions are initialized."""
    driver.settled("a")
    driver.beat("a", -1)
    return driver


def test_new_partitions_are_initialized_once() -> None:
    driver = ShareDriver()
    driver.join("a")
    assert driver.last.start_offsets == {(T, 0): -1, (T, 1): -1}
    assert driver.last.state_epoch == driver.group.epoch
    assert driver.group.partitions.initializing == {T: BOTH}
    driver.beat("a", 2)
    assert driver.last.start_offsets == {}, "the initialization is under way"
    driver.take(driver.machine.shares.mark_initialized("g", {T: frozenset({0, 1})}, driver.now).records)
    assert (driver.group.partitions.initializing, driver.group.partitions.initialized) == ({}, {T: BOTH})


def test_an_initialization_without_result_is_begun_again() -> None:
    driver = ShareDriver(initialize_retry_interval_ms=30_000)
    driver.join("a")
    driver.mono_ms += 30_000
    driver.beat("a", 2)
    assert set(driver.last.start_offsets) == {(T, 0), (T, 1)}


def test_a_failed_initialization_is_begun_again_at_once() -> None:
    driver = ShareDriver()
    driver.join("a")
    driver.take(driver.machine.shares.mark_uninitialized("g", {T: frozenset({0, 1})}, driver.now).records)
    assert driver.group.partitions.initializing == {}
    driver.beat("a", 2)
    assert set(driver.last.start_offsets) == {(T, 0), (T, 1)}


def test_added_partitions_are_initialized_and_assigned() -> None:
    driver = ShareDriver()
    driver.settled("a")
    driver.topics.set("t", 3)
    driver.beat("a", driver.member("a").epoch)
    assert driver.last.start_offsets == {(T, 2): 0}
    driver.initialized()
    driver.beat("a", driver.member("a").epoch)
    assert driver.member("a").assigned == {T: frozenset({0, 1, 2})}


def test_altered_offsets_begin_a_new_state_epoch() -> None:
    driver = left_alone(ShareDriver())
    effects = driver.machine.shares.alter_offsets("g", {(T, 0): 7}, driver.now)
    driver.take(effects.records)
    assert effects.response == (driver.group.epoch, {(T, 0): 7})
    assert driver.group.partitions.initializing == {T: SharedTopic("t", frozenset({0}))}


def test_offsets_of_an_unknown_group_can_be_altered() -> None:
    driver = ShareDriver()
    driver.take(driver.machine.shares.alter_offsets("g", {(T, 1): 7}, driver.now).records)
    assert driver.group.is_empty


def test_offsets_of_a_group_with_members_stay() -> None:
    driver = ShareDriver()
    driver.settled("a")
    for change in (
        lambda: driver.machine.shares.alter_offsets("g", {(T, 0): 7}, driver.now),
        lambda: driver.machine.shares.delete_offsets("g", ["t"], driver.now),
        lambda: driver.machine.shares.begin_deletion(driver.group, driver.now),
        lambda: driver.machine.delete_group("g"),
    ):
        with pytest.raises(Rejected) as refused:
            change()
        assert refused.value.code is ErrorCode.NON_EMPTY_GROUP


def test_deleted_offsets_are_forgotten_when_the_share_coordinator_has_deleted_them() -> None:
    driver = left_alone(ShareDriver())
    effects = driver.machine.shares.delete_offsets("g", ["t", "u"], driver.now)
    driver.take(effects.records)
    assert effects.response == ({T: BOTH}, ["u"])
    assert (driver.group.partitions.initialized, driver.group.partitions.deleting) == ({}, {T: "t"})
    again = driver.machine.shares.delete_offsets("g", ["t"], driver.now)
    assert again.response.topics == {T: BOTH}, "a deletion that has not ended is begun again"
    driver.take(driver.machine.shares.mark_deleted("g", [T], driver.now).records)
    assert driver.group.partitions.deleting == {}
    with pytest.raises(Rejected):
        driver.machine.shares.delete_offsets("other", ["t"], driver.now)


def test_a_group_is_deleted_after_its_state() -> None:
    driver = left_alone(ShareDriver())
    effects = driver.machine.shares.begin_deletion(driver.group, driver.now)
    driver.take(effects.records)
    assert effects.response == {T: BOTH}
    assert driver.group.partitions.deleting == {T: "t"}
    assert driver.take(driver.machine.delete_group("g").records) == ["TargetAssignmentMetadata-", "StatePartitionMetadata-", "Metadata-"]
    assert driver.machine.groups == {}
    assert driver.replayed() is None


def test_a_deleted_topic_is_forgotten() -> None:
    driver = ShareDriver()
    driver.settled("a")
    driver.topics.set("t", 0)
    driver.take(driver.machine.forget_topic("t", T).records)
    assert driver.group.partitions.initialized == {}
    assert driver.machine.forget_topic("t", T).records == []


def test_a_restart_restores_the_group() -> None:
    driver = ShareDriver()
    driver.settled("a", "b")
    driver.topics.set("t", 3)
    driver.beat("a", driver.member("a").epoch)
    found = driver.replayed()
    assert found is not None
    assert vars(found) | {"topics_version": None} == vars(driver.group) | {"topics_version": None}


def test_members_of_a_loaded_group_have_a_full_session() -> None:
    driver = ShareDriver()
    driver.settled("a")
    driver.mono_ms += 1_000
    driver.machine.on_loaded(driver.now)
    driver.machine.shares.on_write_failed(driver.group, driver.now)
    assert driver.machine.next_deadline("g") is not None


def test_a_share_group_takes_no_other_protocol() -> None:
    driver = ShareDriver()
    driver.settled("a")
    join_request = JoinRequest(
        member_id="",
        new_member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=(JoinProtocol("range", b""),),
    )
    (reply,) = driver.machine.join("g", join_request, "request-key", driver.now).response
    assert isinstance(reply.result, JoinGroupResult)
    assert reply.result.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.machine.heartbeat("g", "a", None, 1, driver.now) is ErrorCode.UNKNOWN_MEMBER_ID
    for refused in (
        lambda: driver.machine.commit(Commit(group_id="g", offsets=[]), driver.now),
        lambda: driver.machine.fetch("g", [("t", [0])], require_stable=False),
        lambda: driver.machine.delete_offsets("g", []),
    ):
        with pytest.raises(Rejected) as error:
            refused()
        assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.machine.fetch("g", None, require_stable=False).response == []


def test_an_expiry_of_offsets_spares_share_groups() -> None:
    driver = left_alone(ShareDriver())
    driver.mono_ms += 30 * 24 * 3_600_000
    assert list(driver.machine.expire_offsets(driver.now).records) == []

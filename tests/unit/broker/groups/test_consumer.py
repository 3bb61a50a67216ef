from __future__ import annotations

from functools import partial
from itertools import permutations

import pytest

from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_member import ConsumerMember, MemberState
from ottla.broker.groups.modern import CommitPartition, ModernState
from ottla.protocol import consumer_group_log as records
from ottla.protocol.consumer_group_log import ConsumerKey, ConsumerValue
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import GroupsDriver, facts_of, topic_id

T = topic_id("t")


def metadata(member_id: str, **fields: object) -> tuple[ConsumerKey, ConsumerValue]:
    value = records.ConsumerGroupMemberMetadataValue(**fields)  # type: ignore[arg-type]  # the fields are named by the tests
    return records.ConsumerGroupMemberMetadataKey("g", member_id), value


def current(
    member_id: str, *assigned: int, epoch: int = 2, state: int = 0, pending: list[int] | None = None
) -> tuple[ConsumerKey, ConsumerValue]:
    value = records.ConsumerGroupCurrentMemberAssignmentValue(
        epoch,
        epoch,
        state,
        [records.OwnedTopic(T, list(assigned), [epoch] * len(assigned))],
        [records.OwnedTopic(T, pending or [], [epoch] * len(pending or []))],
    )
    return records.ConsumerGroupCurrentMemberAssignmentKey("g", member_id), value


def group_of(*applied: tuple[ConsumerKey, ConsumerValue | None]) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for key, value in applied:
        group.apply(key, value)
    return group


EPOCH = (records.ConsumerGroupMetadataKey("g"), records.ConsumerGroupMetadataValue(2))
TARGET_EPOCH = (records.ConsumerGroupTargetAssignmentMetadataKey("g"), records.ConsumerGroupTargetAssignmentMetadataValue(2))


def test_the_group_state_follows_from_the_epochs() -> None:
    assert group_of(EPOCH).state is ModernState.EMPTY
    assert group_of(EPOCH, metadata("a")).state is ModernState.ASSIGNING
    assert group_of(EPOCH, TARGET_EPOCH, metadata("a")).state is ModernState.RECONCILING
    assert group_of(EPOCH, TARGET_EPOCH, metadata("a"), current("a")).state is ModernState.STABLE
    waiting = current("a", state=MemberState.UNRELEASED_PARTITIONS)
    assert group_of(EPOCH, TARGET_EPOCH, metadata("a"), waiting).state is ModernState.RECONCILING


def test_assigned_and_revoking_partitions_are_held_until_a_later_record() -> None:
    group = group_of(metadata("a"), current("a", 0, pending=[1]))
    assert [group.holder(T, partition) for partition in range(3)] == ["a", "a", None]
    group.apply(*current("a", 2))
    assert [group.is_free(T, partition) for partition in range(3)] == [True, True, False]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_removed_member_holds_no_partitions(order: tuple[int, ...]) -> None:
    group = group_of(EPOCH, TARGET_EPOCH, metadata("a", instance_id="i"), current("a", 0, 1))
    keys: list[ConsumerKey] = [
        records.ConsumerGroupMemberMetadataKey("g", "a"),
        records.ConsumerGroupTargetAssignmentMemberKey("g", "a"),
        records.ConsumerGroupCurrentMemberAssignmentKey("g", "a"),
    ]
    for index in order:
        group.apply(keys[index], None)
    assert group.members == {}
    assert group.targets == {}
    assert group.static_member("i") is None
    assert group.is_free(T, 0)


def test_an_instance_id_belongs_to_its_last_member() -> None:
    group = group_of(metadata("a", instance_id="i"), metadata("b", instance_id="i"))
    group.apply(records.ConsumerGroupMemberMetadataKey("g", "a"), None)
    holder = group.static_member("i")
    assert holder is not None
    assert holder.member_id == "b"


def test_a_tombstone_of_an_unknown_key_changes_nothing() -> None:
    group = group_of(EPOCH)
    before = facts_of(group)
    for key in (
        records.ConsumerGroupMemberMetadataKey("g", "x"),
        records.ConsumerGroupTargetAssignmentMemberKey("g", "x"),
        records.ConsumerGroupCurrentMemberAssignmentKey("g", "x"),
        records.ConsumerGroupRegularExpressionKey("g", "x"),
        records.ConsumerGroupPartitionMetadataKey("g"),
    ):
        group.apply(key, None)
    assert facts_of(group) == before


def test_a_copy_can_be_changed_without_the_original() -> None:
    group = group_of(EPOCH, TARGET_EPOCH, metadata("a", subscribed_topic_names=["t"]), current("a", 0))
    before = facts_of(group)
    copy = group.copy()
    assert facts_of(copy) == before
    copy.apply(*metadata("b", instance_id="i"))
    copy.apply(*current("a", 1))
    copy.apply(records.ConsumerGroupRegularExpressionKey("g", "x"), records.ConsumerGroupRegularExpressionValue(["x"]))
    assert facts_of(group) == before
    assert group.static_member("i") is None


def test_a_members_topics_include_its_regular_expressions_matches() -> None:
    group = group_of(
        metadata("a", subscribed_topic_names=["t"], subscribed_topic_regex="x.*"),
        (records.ConsumerGroupRegularExpressionKey("g", "x.*"), records.ConsumerGroupRegularExpressionValue(["x1", "x2"])),
    )
    assert group.subscribed_topics() == {"t", "x1", "x2"}
    assert group.is_subscribed_to("x2")
    assert not group.is_subscribed_to("x")
    assert group.subscribers_of_regex("x.*") == 1


def test_the_most_requested_assignor_or_the_default_is_used() -> None:
    group = group_of(metadata("a"), metadata("b", server_assignor="range"))
    assert group.preferred_assignor("uniform") == "range"
    assert group_of(metadata("a")).preferred_assignor("uniform") == "uniform"
    group.apply(*metadata("c", server_assignor="uniform"))
    assert group.preferred_assignor("range") == "uniform"
    group.apply(*metadata("e", server_assignor="range"))
    assert group.preferred_assignor("uniform") == "range"
    group.apply(*metadata("d", server_assignor="uniform"))
    assert group.preferred_assignor("range") == "uniform"


def commit_error(
    group: ConsumerGroup, member_id: str, epoch: int, *partitions: int, transactional: bool = False, knows_epochs: bool = True
) -> ErrorCode:
    """Return the error of an offset commit for these partitions."""
    wanted = [CommitPartition("t", T, partition) for partition in partitions or (0,)]
    return group.check_offset_commit(member_id, None, epoch, wanted, transactional=transactional, knows_epochs=knows_epochs)


def test_commits_are_validated_by_member_and_epoch() -> None:
    group = group_of(metadata("a"), current("a", epoch=3))
    commit = partial(commit_error, group)

    assert commit("a", 3) is ErrorCode.NONE
    assert commit("a", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("a", 4) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("a", 2, transactional=True, knows_epochs=False) is ErrorCode.ILLEGAL_GENERATION
    assert commit("a", 2, transactional=True) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("b", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("a", 3, knows_epochs=False) is ErrorCode.UNSUPPORTED_VERSION
    assert commit_error(ConsumerGroup("g"), "", -1) is ErrorCode.NONE


def test_a_commit_of_an_older_epoch_counts_for_partitions_assigned_then() -> None:
    key = records.ConsumerGroupCurrentMemberAssignmentKey("g", "a")
    assigned, revoked = [records.OwnedTopic(T, [0, 1], [3, 5])], [records.OwnedTopic(T, [2], [3])]
    group = group_of(metadata("a"), (key, records.ConsumerGroupCurrentMemberAssignmentValue(5, 4, 1, assigned, revoked)))
    commit = partial(commit_error, group)
    assert commit("a", 4, 0) is ErrorCode.NONE
    assert commit("a", 3, 0, 2) is ErrorCode.NONE, "what it has to give back is still its own"
    assert commit("a", 4, 0, transactional=True) is ErrorCode.NONE
    assert commit("a", 2, 0) is ErrorCode.STALE_MEMBER_EPOCH, "it did not have it then"
    assert commit("a", 4, 0, 1) is ErrorCode.STALE_MEMBER_EPOCH, "one of them it had not"
    assert commit("a", 4, 7) is ErrorCode.STALE_MEMBER_EPOCH, "it has no such partition"
    assert commit("a", 4, 1, transactional=True, knows_epochs=False) is ErrorCode.ILLEGAL_GENERATION
    assert commit("a", 6, 0) is ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize("epochs", [[], None, [1]])
def test_partitions_without_epochs_have_their_records_epoch(epochs: list[int] | None) -> None:
    key = records.ConsumerGroupCurrentMemberAssignmentKey("g", "a")
    value = records.ConsumerGroupCurrentMemberAssignmentValue(5, 4, 0, [records.OwnedTopic(T, [0, 1], epochs)], [])
    group = group_of(metadata("a"), (key, value))
    assert group.members["a"].epochs == {(T, 0): 5, (T, 1): 5}


def test_a_classic_members_commit_error_is_illegal_generation() -> None:
    classic = records.ClassicMemberMetadata(1, [records.ClassicProtocol("range", b"")])
    group = group_of(metadata("a", classic_member_metadata=classic), current("a", epoch=3))
    assert commit_error(group, "a", 2, knows_epochs=False) is ErrorCode.ILLEGAL_GENERATION
    assert commit_error(group, "a", 3, knows_epochs=False) is ErrorCode.NONE
    assert group.supports_classic_protocols("consumer", {"range", "x"})
    assert not group.supports_classic_protocols("consumer", {"x"})
    assert not group.supports_classic_protocols("connect", {"range"})


def test_an_offset_fetch_needs_no_member_or_a_valid_epoch() -> None:
    group = group_of(metadata("a"), current("a", epoch=3))
    assert group.check_offset_fetch(None, -1) is ErrorCode.NONE
    assert group.check_offset_fetch("a", 3) is ErrorCode.NONE
    assert group.check_offset_fetch("a", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert group.check_offset_fetch("b", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_waits_while_another_holds_its_partition() -> None:
    driver = GroupsDriver()
    driver.join("a")
    driver.join("b")
    waiting: ConsumerMember = driver.member("b")
    assert driver.group.waits_for_release(waiting)
    keeps = driver.beat("a", 2).assignment
    driver.beat("a", 2, owned=keeps)
    assert not driver.group.waits_for_release(waiting)

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.modern import FIRST_EPOCH, NO_EPOCH, ModernGroup, ModernState
from ottla.broker.groups.share_group import ShareGroup
from ottla.protocol import consumer_group_log, share_group_log
from ottla.protocol.consumer_group_log import AssignedTopic

T = b"t" * 16
KINDS = pytest.mark.parametrize(
    ("make", "records", "prefix"), [(ConsumerGroup, consumer_group_log, "ConsumerGroup"), (ShareGroup, share_group_log, "ShareGroup")]
)


def apply(group: ModernGroup[Any], records: Any, name: str, *key: str, value: tuple[Any, ...] | None) -> None:
    """Apply the record type `name` of `records` for group "g"; value None is a tombstone."""
    made = None if value is None else getattr(records, f"{name}Value")(*value)
    group.apply(getattr(records, f"{name}Key")("g", *key), made)


@KINDS
def test_a_new_group_is_empty_in_kafkas_first_epoch(make: Any, records: Any, prefix: str) -> None:
    group = make("g")
    assert (group.state, group.epoch, group.assignment_epoch) == (ModernState.EMPTY, FIRST_EPOCH, FIRST_EPOCH)
    assert (group.is_empty, group.target("m"), group.subscribed_topics()) == (True, {}, frozenset())


@KINDS
def test_epochs_and_targets_are_those_of_the_last_records(make: Any, records: Any, prefix: str) -> None:
    group = make("g")
    apply(group, records, f"{prefix}Metadata", value=(4, 77))
    apply(group, records, f"{prefix}TargetAssignmentMetadata", value=(3, 1_000))
    apply(group, records, f"{prefix}TargetAssignmentMember", "m", value=([AssignedTopic(T, [1, 0])],))
    assert (group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp_ms) == (4, 77, 3, 1_000)
    assert group.target("m") == {T: frozenset({0, 1})}
    apply(group, records, f"{prefix}TargetAssignmentMetadata", value=None)
    apply(group, records, f"{prefix}TargetAssignmentMember", "m", value=None)
    assert (group.assignment_epoch, group.assignment_timestamp_ms, group.targets) == (NO_EPOCH, 0, {})


@KINDS
def test_a_copy_changes_by_itself(make: Any, records: Any, prefix: str) -> None:
    group = make("g")
    copy = group.copy()
    apply(copy, records, f"{prefix}Metadata", value=(4, 0))
    apply(copy, records, f"{prefix}TargetAssignmentMember", "m", value=([],))
    assert type(copy) is make
    assert (group.epoch, group.targets) == (FIRST_EPOCH, {})

from __future__ import annotations

import pytest

from ottla.broker.groups.streams_member import (
    StreamsMember,
    StreamsMemberState,
    current_assignment_of,
    fields_of_assignment,
    fields_of_metadata,
    metadata_of,
    target_from,
    target_of,
)
from ottla.broker.streams.tasks import TaskSet
from ottla.protocol.streams_group_log import OwnedTaskIds, StreamsGroupCurrentMemberAssignmentValue

MEMBER = StreamsMember(
    member_id="m",
    rack_id="r",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=30_000,
    topology_epoch=2,
    process_id="p",
    user_endpoint=("host", 80),
    client_tags={"zone": "a", "cloud": "b"},
    epoch=5,
    previous_epoch=4,
    state=StreamsMemberState.UNREVOKED_TASKS,
    assigned=TaskSet({"0": frozenset({0, 1})}, {"1": frozenset({2})}),
    pending_revocation=TaskSet({"0": frozenset({3})}),
    epochs={("0", 0): 5, ("0", 1): 3, ("0", 3): 2},
)


def test_a_member_is_restored_from_its_two_records() -> None:
    metadata, assignment = fields_of_metadata(metadata_of(MEMBER)), fields_of_assignment(current_assignment_of(MEMBER))
    assert StreamsMember(member_id="m", **metadata, **assignment) == MEMBER  # type: ignore[arg-type] # the fields of a member


def test_the_tags_of_a_record_are_sorted() -> None:
    assert [tag.key for tag in metadata_of(MEMBER).client_tags] == ["cloud", "zone"]


def test_a_target_is_restored_from_its_record() -> None:
    target = TaskSet({"0": frozenset({1})}, {"1": frozenset({0})}, {"2": frozenset({2})})
    assert target_from(target_of(target)) == target


@pytest.mark.parametrize("epochs", [None, [], [1]])
def test_active_tasks_without_epochs_have_that_of_their_record(epochs: list[int] | None) -> None:
    value = StreamsGroupCurrentMemberAssignmentValue(7, 6, 1, [OwnedTaskIds("0", [0, 1], epochs)])
    assert fields_of_assignment(value)["epochs"] == {("0", 0): 7, ("0", 1): 7}


def test_a_state_of_a_newer_coordinator_is_unknown() -> None:
    assert fields_of_assignment(StreamsGroupCurrentMemberAssignmentValue(1, 1, 9))["state"] is StreamsMemberState.UNKNOWN


def test_member_still_owns_tasks_to_revoke() -> None:
    assert MEMBER.held_tasks().active == {"0": frozenset({0, 1, 3})}
    assert not MEMBER.is_reconciled_to(5)

from __future__ import annotations

import time

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.share.acknowledgement import AcknowledgementBatch, AcknowledgeType, acknowledge
from ottla.broker.share.acquisition import Acquisition, Fetched, acquire
from ottla.broker.share.persister import ReadState, StateBatch
from ottla.broker.share.settings import ShareSettings
from ottla.broker.share.share_partition import SharePartition
from ottla.protocol.error_codes import ErrorCode

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW


@pytest.fixture
def partition() -> SharePartition:
    """A share partition of which member "m" has acquired the offsets 0 to 9, in two batches."""
    settings = ShareSettings()
    partition = SharePartition(lambda: settings, leader_epoch=0)
    partition.load(ReadState(0, 0), 0)
    acquire(partition, Acquisition("m", 5, 5, False, 0), 0, [Fetched(0, 4)])
    acquire(partition, Acquisition("m", 5, 5, False, 0), 5, [Fetched(5, 9)])
    return partition


def given(first: int, last: int, *types: int) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first, last, types)]


def test_a_whole_batch_is_one_change(partition: SharePartition) -> None:
    assert acknowledge(partition, "m", given(0, 9, ACCEPT), 0).batches == [StateBatch(0, 4, 2, 1), StateBatch(5, 9, 2, 1)]


def test_types_of_single_offsets_are_changed_in_runs(partition: SharePartition) -> None:
    update = acknowledge(partition, "m", given(2, 6, ACCEPT, ACCEPT, RELEASE, REJECT, AcknowledgeType.GAP), 0)
    assert update.batches == [StateBatch(2, 3, 2, 1), StateBatch(4, 4, 0, 1), StateBatch(5, 5, 4, 1), StateBatch(6, 6, 4, 1)]


def test_a_renewal_changes_no_state(partition: SharePartition) -> None:
    assert acknowledge(partition, "m", given(0, 9, RENEW), now_ms=10).batches == []
    assert {run.state.lock_deadline_ms for run in partition.runs(0, 9)} == {30_010}


def test_a_refused_request_begins_no_transition(partition: SharePartition) -> None:
    with pytest.raises(Rejected) as refused:
        acknowledge(partition, "m", [*given(0, 4, ACCEPT), *given(8, 12, ACCEPT)], 0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert all(run.state.change is None for run in partition.runs(0, 9))
    assert partition.delivery_complete_count == 0


@pytest.mark.parametrize(
    ("member", "first", "last", "message"),
    [
        ("n", 0, 4, "Member is not the owner of batch record"),
        ("n", 0, 3, "Member is not the owner of batch record"),
        ("m", 10, 11, "Batch record not found. The first offset in request is past acquired records."),
        ("m", 5, 11, "Batch record not found. The last offset in request is past acquired records."),
    ],
)
def test_records_that_the_member_has_not_acquired_are_rejected_with_kafkas_message(
    partition: SharePartition, member: str, first: int, last: int, message: str
) -> None:
    with pytest.raises(Rejected) as refused:
        acknowledge(partition, member, given(first, last, ACCEPT), 0)
    assert refused.value.message == message


def test_a_record_in_transition_cannot_be_acknowledged_again(partition: SharePartition) -> None:
    acknowledge(partition, "m", given(0, 4, ACCEPT), 0)
    with pytest.raises(Rejected) as refused:
        acknowledge(partition, "m", given(0, 4, ACCEPT), 0)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


def test_offsets_below_the_start_offset_are_passed_over(partition: SharePartition) -> None:
    partition.commit(acknowledge(partition, "m", given(0, 6, ACCEPT), 0))
    assert acknowledge(partition, "m", given(0, 6, ACCEPT), 0).batches == []
    assert acknowledge(partition, "m", given(5, 9, ACCEPT), 0).batches == [StateBatch(7, 9, 2, 1)]


def test_an_unknown_type_is_an_invalid_request(partition: SharePartition) -> None:
    with pytest.raises(Rejected) as refused:
        acknowledge(partition, "m", given(0, 0, 9), 0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_the_time_of_an_acknowledgement_does_not_grow_with_the_number_of_others() -> None:
    count = 16_000
    settings = ShareSettings(partition_max_record_locks=count)
    many = SharePartition(lambda: settings, leader_epoch=0)
    many.load(ReadState(state_epoch=0, start_offset=0), 0)
    acquire(many, Acquisition("m", count, count, record_limit=False, now_ms=0), 0, [Fetched(0, count - 1)])
    began = time.thread_time()
    update = acknowledge(many, "m", [AcknowledgementBatch(at, at, [AcknowledgeType.RELEASE]) for at in range(count)], 1)
    many.commit(update)
    assert time.thread_time() - began < 2  # looking at all others for each one takes 5 s
    assert many.next_fetch_offset() == 0

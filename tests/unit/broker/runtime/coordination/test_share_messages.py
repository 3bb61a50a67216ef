from __future__ import annotations

from ottla.broker.runtime.coordination.share_messages import parts_of, request_for, result_of
from ottla.broker.runtime.coordination.share_operations import DeleteOperation, ReadOperation, SummaryOperation
from ottla.broker.share.persister import ReadState, SharePartitionKey, StateBatch, StateSummary
from ottla.protocol.messages import k84_read_share_group_state as k84
from ottla.protocol.messages import k86_delete_share_group_state as k86
from ottla.protocol.messages import k87_read_share_group_state_summary as k87
from ottla.protocol.messages.share_state import PartitionResult, StateResult

T, U = b"t" * 16, b"u" * 16


def key(topic_id: bytes, partition: int) -> SharePartitionKey:
    return SharePartitionKey("g", topic_id, partition)


def test_a_request_has_its_partitions_by_topic() -> None:
    request = request_for([ReadOperation(key(T, 1), 5), ReadOperation(key(U, 0), 6), ReadOperation(key(T, 0), 7)])
    assert request == k84.ReadShareGroupStateRequest(
        "g",
        [
            k84.ReadStateData(T, [k84.PartitionData(1, 5), k84.PartitionData(0, 7)]),
            k84.ReadStateData(U, [k84.PartitionData(0, 6)]),
        ],
    )


def test_the_parts_of_a_response_are_found_by_share_partition() -> None:
    part = PartitionResult(1)
    assert parts_of("g", k86.DeleteShareGroupStateResponse([StateResult(T, [part])])) == {key(T, 1): part}


def test_a_part_is_the_result_of_its_operation() -> None:
    read = k84.PartitionResult(0, state_epoch=1, start_offset=2, state_batches=[k84.StateBatch(2, 3, 2, 1)])
    assert result_of(ReadOperation(key(T, 0), 5), read) == ReadState(1, 2, [StateBatch(2, 3, 2, 1)])
    summary = k87.PartitionResult(0, state_epoch=1, leader_epoch=2, start_offset=3, delivery_complete_count=4)
    assert result_of(SummaryOperation(key(T, 0)), summary) == StateSummary(1, 2, 3, 4)
    assert result_of(DeleteOperation(key(T, 0)), PartitionResult(0)) is None

"""Builds the requests that carry operations on share state to the share coordinator on another broker, and reads the responses. A
standalone node does not import this module.

A request carries operations of one kind on share partitions of one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ottla.broker.runtime.coordination.share_operations import (
    DeleteOperation,
    InitializeOperation,
    ReadOperation,
    StateOperation,
    SummaryOperation,
    WriteOperation,
)
from ottla.broker.share.persister import ReadState, SharePartitionKey, StateBatch, StateSummary
from ottla.protocol.messages import k83_initialize_share_group_state as k83
from ottla.protocol.messages import k84_read_share_group_state as k84
from ottla.protocol.messages import k85_write_share_group_state as k85
from ottla.protocol.messages import k86_delete_share_group_state as k86
from ottla.protocol.messages import k87_read_share_group_state_summary as k87
from ottla.protocol.messages import share_state
from ottla.protocol.schema import Message


class _Classes(NamedTuple):
    request: type[Any]
    topic: type[Any]


_CLASSES: Final[dict[type[StateOperation[Any]], _Classes]] = {
    InitializeOperation: _Classes(k83.InitializeShareGroupStateRequest, k83.InitializeStateData),
    ReadOperation: _Classes(k84.ReadShareGroupStateRequest, k84.ReadStateData),
    WriteOperation: _Classes(k85.WriteShareGroupStateRequest, k85.WriteStateData),
    DeleteOperation: _Classes(k86.DeleteShareGroupStateRequest, k86.DeleteStateData),
    SummaryOperation: _Classes(k87.ReadShareGroupStateSummaryRequest, k87.ReadStateSummaryData),
}


def request_for(operations: Sequence[StateOperation[Any]]) -> Message:
    """Return the request for the share coordinator that carries these operations on share state. All are of one kind and on one group."""
    classes = _CLASSES[type(operations[0])]
    topics: dict[bytes, list[Any]] = {}
    for operation in operations:
        topics.setdefault(operation.key.topic_id, []).append(_part(operation))
    request: Message = classes.request(operations[0].key.group_id, [classes.topic(*topic) for topic in topics.items()])
    return request


def parts_of(group_id: str, response: Any) -> dict[SharePartitionKey, Any]:
    """Return the entries of a share coordinator's response by share partition of the group `group_id`. An entry has an error code or an
    operation's result (`result_of`).
    """
    return {SharePartitionKey(group_id, topic.topic_id, part.partition): part for topic in response.results for part in topic.partitions}


def result_of(operation: StateOperation[Any], part: Any) -> Any:
    """Return the result of an operation on share state. `part` is the operation's entry in the response, which has no error."""
    match operation:
        case ReadOperation():
            batches = [
                StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in part.state_batches
            ]
            return ReadState(part.state_epoch, part.start_offset, batches)
        case SummaryOperation():
            return StateSummary(part.state_epoch, part.leader_epoch, part.start_offset, part.delivery_complete_count)
        case _:
            return None


def _part(operation: StateOperation[Any]) -> Any:
    partition = operation.key.partition
    match operation:
        case InitializeOperation():
            return k83.PartitionData(partition, operation.state_epoch, operation.start_offset)
        case ReadOperation():
            return k84.PartitionData(partition, operation.leader_epoch)
        case WriteOperation():
            state = operation.state
            batches = [share_state.StateBatch(*batch) for batch in state.batches]
            epochs = state.state_epoch, state.leader_epoch
            return k85.PartitionData(partition, *epochs, state.start_offset, state.delivery_complete_count, batches)
        case SummaryOperation():
            return k87.PartitionData(partition, -1)
        case _:
            return k86.PartitionData(partition)

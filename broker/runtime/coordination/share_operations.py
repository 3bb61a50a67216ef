"""The operations on share state, as calls of a persister and as messages to the broker that coordinates the state.

A request carries share partitions of one group. Each operation says how its part of the request is written and its result is read.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from ottla.broker.share.persister import Persister, ReadState, SharePartitionKey, StateBatch, StateSummary, WrittenState
from ottla.protocol.messages import k83_initialize_share_group_state as k83
from ottla.protocol.messages import k84_read_share_group_state as k84
from ottla.protocol.messages import k85_write_share_group_state as k85
from ottla.protocol.messages import k86_delete_share_group_state as k86
from ottla.protocol.messages import k87_read_share_group_state_summary as k87
from ottla.protocol.schema import Message

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class StateOperation(ABC, Generic[ResultT]):
    """An operation on the state of one share partition. `REQUEST` and `TOPIC` are the classes of its messages."""

    key: SharePartitionKey

    REQUEST: ClassVar[type[Any]]
    TOPIC: ClassVar[type[Any]]

    @abstractmethod
    def run(self, persister: Persister) -> ResultT | asyncio.Future[ResultT]:
        """Carry out the operation."""

    @abstractmethod
    def part(self) -> Any:
        """Return the operation's part of a request."""

    @abstractmethod
    def result(self, part: Any) -> ResultT:
        """Return the result that a part of a response without an error has."""


@dataclass(frozen=True, slots=True)
class InitializeOperation(StateOperation[None]):
    """Begins a state epoch at a start offset."""

    REQUEST = k83.InitializeShareGroupStateRequest
    TOPIC = k83.InitializeStateData

    state_epoch: int
    start_offset: int

    def run(self, persister: Persister) -> asyncio.Future[None] | None:
        return persister.initialize(self.key, self.state_epoch, self.start_offset)

    def part(self) -> k83.PartitionData:
        return k83.PartitionData(self.key.partition, self.state_epoch, self.start_offset)

    def result(self, part: k83.PartitionResult) -> None:
        return None


@dataclass(frozen=True, slots=True)
class ReadOperation(StateOperation[ReadState]):
    """Reads the state and announces a leader epoch."""

    REQUEST = k84.ReadShareGroupStateRequest
    TOPIC = k84.ReadStateData

    leader_epoch: int

    def run(self, persister: Persister) -> ReadState | asyncio.Future[ReadState]:
        return persister.read(self.key, self.leader_epoch)

    def part(self) -> k84.PartitionData:
        return k84.PartitionData(self.key.partition, self.leader_epoch)

    def result(self, part: k84.PartitionResult) -> ReadState:
        batches = [StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in part.state_batches]
        return ReadState(part.state_epoch, part.start_offset, batches)


@dataclass(frozen=True, slots=True)
class WriteOperation(StateOperation[None]):
    """Writes what has changed."""

    REQUEST = k85.WriteShareGroupStateRequest
    TOPIC = k85.WriteStateData

    state: WrittenState

    def run(self, persister: Persister) -> asyncio.Future[None] | None:
        return persister.write(self.key, self.state)

    def part(self) -> k85.PartitionData:
        state = self.state
        return k85.PartitionData(
            self.key.partition,
            state.state_epoch,
            state.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            [k85.StateBatch(*batch) for batch in state.batches],
        )

    def result(self, part: k85.PartitionResult) -> None:
        return None


@dataclass(frozen=True, slots=True)
class DeleteOperation(StateOperation[None]):
    """Deletes the state."""

    REQUEST = k86.DeleteShareGroupStateRequest
    TOPIC = k86.DeleteStateData

    def run(self, persister: Persister) -> asyncio.Future[None] | None:
        return persister.delete(self.key)

    def part(self) -> k86.PartitionData:
        return k86.PartitionData(self.key.partition)

    def result(self, part: k86.PartitionResult) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SummaryOperation(StateOperation[StateSummary]):
    """Reads the start offset and the epochs."""

    REQUEST = k87.ReadShareGroupStateSummaryRequest
    TOPIC = k87.ReadStateSummaryData

    def run(self, persister: Persister) -> StateSummary | asyncio.Future[StateSummary]:
        return persister.summary(self.key)

    def part(self) -> k87.PartitionData:
        return k87.PartitionData(self.key.partition, -1)

    def result(self, part: k87.PartitionResult) -> StateSummary:
        return StateSummary(part.state_epoch, part.leader_epoch, part.start_offset, part.delivery_complete_count)


def request_for(operations: Sequence[StateOperation[Any]]) -> Message:
    """Return the request that carries these operations, which are of one kind and of one group."""
    first = operations[0]
    topics: dict[bytes, list[Any]] = {}
    for operation in operations:
        topics.setdefault(operation.key.topic_id, []).append(operation.part())
    request: Message = first.REQUEST(first.key.group_id, [first.TOPIC(*topic) for topic in topics.items()])
    return request


def parts_of(group_id: str, results: Iterable[Any]) -> dict[SharePartitionKey, Any]:
    """Return the parts of a response by share partition."""
    return {SharePartitionKey(group_id, topic.topic_id, part.partition): part for topic in results for part in topic.partitions}

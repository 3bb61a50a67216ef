"""The operations on a share partition's state, as objects that can be queued, retried and sent to another broker."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.broker.share.persister import Persister, ReadState, SharePartitionKey, StateSummary, WrittenState

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class StateOperation(ABC, Generic[ResultT]):
    """An operation on the stored state of one share partition (KIP-932), such as a read or a write."""

    key: SharePartitionKey

    @abstractmethod
    def run(self, persister: Persister) -> ResultT | asyncio.Future[ResultT]:
        """Perform the operation by calling the persister's method for it. Return the operation's result, or a future of the result. If the
        operation fails, raises Rejected, or the future fails with Rejected.
        """


@dataclass(frozen=True, slots=True)
class InitializeOperation(StateOperation[None]):
    """Initializes a share partition's state with a state epoch and a start offset (InitializeShareGroupState)."""

    state_epoch: int
    start_offset: int

    def run(self, persister: Persister) -> asyncio.Future[None] | None:
        return persister.initialize(self.key, self.state_epoch, self.start_offset)


@dataclass(frozen=True, slots=True)
class ReadOperation(StateOperation[ReadState]):
    """Reads a share partition's state and stores the partition's leader epoch, so that writes with a lower leader epoch are rejected
    (ReadShareGroupState).
    """

    leader_epoch: int

    def run(self, persister: Persister) -> ReadState | asyncio.Future[ReadState]:
        return persister.read(self.key, self.leader_epoch)


@dataclass(frozen=True, slots=True)
class WriteOperation(StateOperation[None]):
    """Writes the changed delivery states of a share partition (WriteShareGroupState)."""

    state: WrittenState

    def run(self, persister: Persister) -> asyncio.Future[None] | None:
        return persister.write(self.key, self.state)


@dataclass(frozen=True, slots=True)
class DeleteOperation(StateOperation[None]):
    """Deletes a share partition's state (DeleteShareGroupState)."""

    def run(self, persister: Persister) -> asyncio.Future[None] | None:
        return persister.delete(self.key)


@dataclass(frozen=True, slots=True)
class SummaryOperation(StateOperation[StateSummary]):
    """Reads the start offset, state epoch and leader epoch of a share partition's state, without its delivery states
    (ReadShareGroupStateSummary).
    """

    def run(self, persister: Persister) -> StateSummary | asyncio.Future[StateSummary]:
        return persister.summary(self.key)

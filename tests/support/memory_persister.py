"""A persister in memory, whose reads and writes wait or fail when the test says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ottla.broker.core.rejected import Rejected
from ottla.broker.share.persister import ReadState, SharePartitionKey, WrittenState
from ottla.broker.share.state_batches import combine
from ottla.protocol.error_codes import ErrorCode


class MemoryPersister:
    """A stand-in for the client of the share coordinator, which stores share state by share partition. With `holds_back`, each read and
    write waits for `complete_all` or `fail`."""

    def __init__(self, start_offset: int = 0) -> None:
        self.states: dict[SharePartitionKey, ReadState] = {}
        self.refusal: Rejected | None = None
        self.holds_back = False
        self.reads = 0
        self._start_offset = start_offset
        self._held: list[tuple[asyncio.Future[None], SharePartitionKey, WrittenState]] = []
        self._held_reads: list[tuple[asyncio.Future[ReadState], SharePartitionKey]] = []

    def state(self, key: SharePartitionKey) -> ReadState:
        return self.states.get(key, ReadState(0, self._start_offset))

    def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState | asyncio.Future[ReadState]:
        self.reads += 1
        if self.refusal is not None:
            raise self.refusal
        if not self.holds_back:
            return self.state(key)
        held: asyncio.Future[ReadState] = asyncio.get_running_loop().create_future()
        self._held_reads.append((held, key))
        return held

    def write(self, key: SharePartitionKey, state: WrittenState) -> asyncio.Future[None] | None:
        if self.refusal is not None:
            raise self.refusal
        if not self.holds_back:
            self._put(key, state)
            return None
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held.append((held, key, state))
        return held

    def complete_all(self) -> None:
        """Complete all pending reads and writes of share state."""
        for held, key, state in self._held:
            self._put(key, state)
            held.set_result(None)
        for read, key in self._held_reads:
            read.set_result(self.state(key))
        self._held, self._held_reads = [], []

    def fail(self, code: ErrorCode) -> None:
        """Fail all pending reads and writes of share state with this error code."""
        for future in [held for held, _, _ in self._held] + [read for read, _ in self._held_reads]:
            future.set_exception(Rejected(code))
        self._held, self._held_reads = [], []

    def _put(self, key: SharePartitionKey, state: WrittenState) -> None:
        before = self.state(key)
        batches = combine(before.batches, state.batches, state.start_offset)
        self.states[key] = replace(before, start_offset=max(state.start_offset, before.start_offset), batches=batches)

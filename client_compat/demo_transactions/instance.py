"""One instance of the pipeline, whatever its client library: take over, then count chunk after chunk until all input is committed.

Rules:
* An instance works on all partitions: the two are one process and its replacement, started because the first was believed dead. The group
  only keeps the offsets; the transactional id decides which of the two counts.
* To take over, an instance first calls `init_transactions`, which fences the other instance and ends its transaction, and then reads the
  committed offsets, which no other instance can change any more.
* After every 50 writes, an instance pauses between write and commit, as a stopped or swapping process does. Its replacement takes over
  meanwhile, so the instance that resumes is a zombie.
* After an error, an instance takes over again: at once after a failure; after a pause if it was fenced, so that the other instance can
  make progress. An earlier transaction is then committed with its offsets, or aborted.
* Without transactions (the comparison), an instance writes, then commits the offsets, and regards itself as fenced if the committed offsets
  are not those that it committed last. This check and the next write are not atomic, and neither are a write and its commit.
"""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any

from client_compat.demo_transactions.counting import Chunk, Increment, increments

INPUT = "flights"
INPUT_PARTITIONS = 6
CLIENTS = ("aiokafka", "confluent-kafka")
CHUNK_RECORDS = 1_000
# librdkafka waits half a second if the transaction of the fenced instance has not ended yet: with a shorter pause, it never gets its turn.
TAKEOVER_PAUSE_S = (0.8, 1.6)
STALL_EVERY = 50  # writes of an instance, from the tenth on: each run stalls, however quick it is
STALL_FIRST = 10
STALL_S = 1.8  # longer than the other instance's pause
FAILURE_PAUSE_S = 0.05
TRANSACTION_TIMEOUT_MS = 20_000
RESPONSE_TIMEOUT_S = 30.0


class Fenced(Exception):
    """Raised when another pipeline instance with the same transactional id has fenced this one."""


class Failed(Exception):
    """Raised when a step of a pipeline instance failed or its result is unknown. The instance then takes over again: it aborts its open
    transaction and reads the committed offsets."""


@dataclass(frozen=True, slots=True)
class InstanceTask:
    """The parameters of the pipeline's instances. `output` is the output topic, `group` the consumer group. `transactional` is False in the
    run without transactions, for comparison."""

    bootstrap: str
    output: str
    group: str
    transactional: bool
    client_log: Path

    @property
    def transactional_id(self) -> str:
        return f"{self.group}-pipeline"


@dataclass(slots=True)
class Board:
    """The progress of the two pipeline instances, in memory that they share. Each field is an array with one number per instance, which
    only this instance writes."""

    counted: Any = field(default_factory=lambda: RawArray("q", len(CLIENTS)))  # flights in committed chunks
    takeovers: Any = field(default_factory=lambda: RawArray("q", len(CLIENTS)))
    fenced: Any = field(default_factory=lambda: RawArray("q", len(CLIENTS)))
    failed: Any = field(default_factory=lambda: RawArray("q", len(CLIENTS)))


class PipelineInstance(ABC):
    """The steps of one pipeline instance. A subclass implements them with one client library. All steps except `close` raise `Fenced` if
    another instance has fenced this one, and `Failed` if a call fails or its result is unknown."""

    @abstractmethod
    async def take_over(self) -> dict[int, int]:
        """Fence the other instance (if transactional), seek to the committed offsets, and return them by partition."""

    @abstractmethod
    async def ends(self) -> dict[int, int]:
        """Return the end offset of every input partition."""

    @abstractmethod
    async def read(self) -> list[Chunk]:
        """Return the next input records, as one chunk per partition. Returns an empty list if no record arrives for a short time."""

    @abstractmethod
    async def write(self, output: list[Increment]) -> None:
        """Write the increments, in a new transaction if transactional; return when all are acknowledged."""

    @abstractmethod
    async def commit(self, positions: dict[int, int]) -> None:
        """Commit these offsets (by input partition). A transactional instance adds them to the current transaction, and commits the
        transaction."""

    @abstractmethod
    async def committed(self) -> dict[int, int]:
        """Return the group's committed offset of every input partition, 0 if there is none."""

    @abstractmethod
    async def close(self) -> None: ...


class Pipeline:
    """Runs one pipeline instance until all input records are counted, which is when the committed offsets are the end offsets of the input.
    After each error, the instance takes over again."""

    def __init__(self, index: int, instance: PipelineInstance, job: InstanceTask, board: Board) -> None:
        self._index, self._instance, self._job, self._board = index, instance, job, board
        self._log = logging.getLogger(f"pipeline.{CLIENTS[index]}")
        self._random = random.Random()
        self._writes = 0

    async def run(self) -> None:
        board, index = self._board, self._index
        while True:
            try:
                positions = await self._instance.take_over()
                board.takeovers[index] += 1
                await self._count_on(positions, await self._instance.ends())
                return
            except Fenced as reason:
                board.fenced[index] += 1
                self._log.warning("fenced: %s", reason)
                await asyncio.sleep(self._random.uniform(*TAKEOVER_PAUSE_S))
            except Failed as reason:
                board.failed[index] += 1
                self._log.warning("takes over again: %s", reason)
                await asyncio.sleep(FAILURE_PAUSE_S)

    async def _count_on(self, positions: dict[int, int], ends: dict[int, int]) -> None:
        while positions != ends:
            if not self._job.transactional and await self._instance.committed() != positions:
                raise Fenced("the committed offsets are another's")
            chunks = await self._instance.read()
            if not chunks:
                continue
            for chunk in chunks:
                if chunk.first != positions[chunk.partition]:
                    raise Failed(f"partition {chunk.partition} goes on at {chunk.first} where {positions[chunk.partition]} was to come")
            moved = {chunk.partition: chunk.end for chunk in chunks}
            await self._instance.write([increment for chunk in chunks for increment in increments(chunk)])
            self._writes += 1
            if self._writes % STALL_EVERY == STALL_FIRST:
                await asyncio.sleep(STALL_S)
            await self._instance.commit(moved)
            positions |= moved
            self._board.counted[self._index] += sum(len(chunk.records) for chunk in chunks)

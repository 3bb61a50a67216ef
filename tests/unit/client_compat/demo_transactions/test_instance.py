"""The pipeline's loop over an instance with its log and offsets in memory: whatever step fails, starting again repairs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.demo_transactions import instance as module
from client_compat.demo_transactions.counting import Chunk, Increment
from client_compat.demo_transactions.instance import Board, Failed, Fenced, InstanceTask, Pipeline, PipelineInstance

FLIGHTS = [(b"UA", b'{"hour":%d}' % (number % 24)) for number in range(40)]
CHUNK = 6


class InMemory(PipelineInstance):
    """A partition in memory. `mishaps` are raised one by one, at each call of the step that they name. As in a broker, starting again
    aborts the open transaction."""

    def __init__(self, mishaps: list[tuple[str, Exception]], *, transactional: bool = True) -> None:
        self.mishaps, self.transactional = mishaps, transactional
        self.log: list[Increment] = []
        self.open: list[Increment] = []
        self.offset, self.position = 0, 0

    def _mishap(self, step: str) -> None:
        if self.mishaps and self.mishaps[0][0] == step:
            raise self.mishaps.pop(0)[1]

    async def take_over(self) -> dict[int, int]:
        self._mishap("take_over")
        self.open, self.position = [], self.offset
        return {0: self.offset}

    async def ends(self) -> dict[int, int]:
        return {0: len(FLIGHTS)}

    async def read(self) -> list[Chunk]:
        self._mishap("read")
        first, self.position = self.position, min(self.position + CHUNK, len(FLIGHTS))
        return [Chunk(0, first, FLIGHTS[first : self.position])]

    async def write(self, output: list[Increment]) -> None:
        (self.open if self.transactional else self.log).extend(output)
        self._mishap("write")

    async def commit(self, positions: dict[int, int]) -> None:
        self._mishap("commit")
        self.log.extend(self.open)
        self.open, self.offset = [], positions[0]
        self._mishap("answer")

    async def committed(self) -> dict[int, int]:
        self._mishap("committed")
        return {0: self.offset}

    async def close(self) -> None:
        self.open = []


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAILURE_PAUSE_S", "STALL_S"):
        monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(module, "TAKEOVER_PAUSE_S", (0, 0))


async def run(instance: InMemory) -> Board:
    board = Board()
    job = InstanceTask("", "counts", "group", instance.transactional, Path())
    await Pipeline(1, instance, job, board).run()
    return board


def counted(instance: InMemory) -> int:
    return sum(increment.n for increment in instance.log)


MISHAPS: list[tuple[str, Exception]] = [
    ("take_over", Failed("no broker")),
    ("read", Failed("no broker")),
    ("write", Fenced("newer epoch")),
    ("commit", Failed("aborted")),
    ("answer", Failed("nobody knows")),
    ("commit", Fenced("newer epoch")),
]


async def test_each_input_counts_once_with_transactions_whichever_step_fails() -> None:
    instance = InMemory(list(MISHAPS))
    board = await run(instance)
    assert not instance.mishaps
    assert (counted(instance), instance.offset) == (len(FLIGHTS), len(FLIGHTS))
    assert (board.takeovers[1], board.fenced[1], board.failed[1]) == (6, 2, 4)


async def test_records_before_a_failed_commit_count_twice_without_transactions() -> None:
    instance = InMemory([("commit", Failed("no broker"))], transactional=False)
    await run(instance)
    assert counted(instance) == len(FLIGHTS) + CHUNK


async def test_instance_without_transactions_rewinds_when_another_committed_its_offsets() -> None:
    instance = InMemory([], transactional=False)
    looks = 0
    look = instance.committed

    async def other_instance_commits() -> dict[int, int]:
        nonlocal looks
        looks += 1
        if looks == 2:
            instance.offset = 30
        return await look()

    instance.committed = other_instance_commits  # type: ignore[method-assign] # the other instance, at a known moment
    board = await run(instance)
    assert board.fenced[1] == 1
    assert counted(instance) == CHUNK + 10


async def test_records_beyond_the_expected_position_are_not_counted() -> None:
    instance = InMemory([])
    read = instance.read
    skipped = False

    async def skip_once() -> list[Chunk]:
        nonlocal skipped
        if not skipped:
            skipped, instance.position = True, 3
        return await read()

    instance.read = skip_once  # type: ignore[method-assign] # a client that starts at the wrong place, once
    board = await run(instance)
    assert board.failed[1] == 1
    assert counted(instance) == len(FLIGHTS)

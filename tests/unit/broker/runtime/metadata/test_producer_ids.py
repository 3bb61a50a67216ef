from __future__ import annotations

import asyncio

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.metadata.producer_ids import NoProducerId, ProducerIds
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.protocol.error_codes import ErrorCode
from tests.support.simulation import settle

SIZE = 20


class Blocks:
    """A controller that allocates blocks of twenty producer ids when the test permits it."""

    def __init__(self) -> None:
        self.requests = 0
        self.may = asyncio.Event()
        self.refusal: Rejected | None = None

    async def allocate(self) -> range:
        first = SIZE * self.requests
        self.requests += 1
        await self.may.wait()
        if self.refusal is not None:
            raise self.refusal
        return range(first, first + SIZE)


@pytest.fixture
async def blocks() -> Blocks:
    return Blocks()


async def test_no_producer_id_is_given_before_its_block_is_allocated(blocks: Blocks) -> None:
    ids = ProducerIds(blocks.allocate, Nursery(Timers(), VirtualClock(), lambda _: None))
    with pytest.raises(NoProducerId) as none:
        ids.generate()
    assert none.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    waits = [asyncio.ensure_future(ids.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(wait.done() for wait in waits)
    blocks.may.set()
    await asyncio.gather(*waits)
    assert (ids.generate(), ids.generate(), blocks.requests) == (0, 1, 1)


async def test_the_next_block_is_requested_once_before_the_current_is_used_up(blocks: Blocks) -> None:
    blocks.may.set()
    ids = ProducerIds(blocks.allocate, Nursery(Timers(), VirtualClock(), lambda _: None))
    await ids.wait()
    given = [ids.generate() for _ in range(SIZE - 3)]
    await asyncio.sleep(0)
    assert blocks.requests == 1
    given += [ids.generate(), ids.generate()]
    async with asyncio.timeout(5):
        while blocks.requests < 2:  # noqa: ASYNC110 # the request is a task of its own
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    given += [ids.generate() for _ in range(3)]
    assert given == list(range(SIZE + 2))
    assert blocks.requests == 2


async def test_a_failed_block_fails_its_waiters_and_a_later_call_retries(blocks: Blocks, caplog: pytest.LogCaptureFixture) -> None:
    blocks.may.set()
    blocks.refusal = Rejected(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
    ids = ProducerIds(blocks.allocate, Nursery(Timers(), VirtualClock(), lambda _: None))
    with pytest.raises(Rejected, match="the disk is full"):
        await ids.wait()
    assert "the disk is full" in caplog.text
    blocks.refusal = None
    await ids.wait()
    assert ids.generate() == SIZE


async def test_a_cancelled_waiter_uses_no_producer_id(blocks: Blocks) -> None:
    ids = ProducerIds(blocks.allocate, Nursery(Timers(), VirtualClock(), lambda _: None))
    gone, stays = asyncio.ensure_future(ids.wait()), asyncio.ensure_future(ids.wait())
    await asyncio.sleep(0)
    gone.cancel()
    blocks.may.set()
    await stays
    assert (ids.generate(), blocks.requests) == (0, 1)


async def test_block_allocations_of_other_nodes_are_ignored(blocks: Blocks) -> None:
    ids = ProducerIds(blocks.allocate, Nursery(Timers(), VirtualClock(), lambda _: None), local=False)
    for _ in range(2):
        with pytest.raises(NoProducerId):
            ids.generate()
        with pytest.raises(NoProducerId):
            await ids.wait()
    blocks.may.set()
    await settle()
    assert (ids.generate(), blocks.requests) == (0, 1)

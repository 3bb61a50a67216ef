"""Through any failures of the quorum and the network, the observer's log equals the quorum's, and committed records are published in
order."""

from __future__ import annotations

import random

import pytest

from ottla.broker.cluster.metadata_records import ConfigRecord
from ottla.broker.core.log_config import LogConfig
from ottla.broker.runtime.nodes.observer import ObserverSettings
from ottla.broker.runtime.nodes.snapshot_generator import SnapshotPolicy
from ottla.broker.storage.raft_log import MetadataRetention
from tests.support.observer_harness import ObserverHarness
from tests.support.simulation import TimelessLoop

STEPS = 150


class Scenario:
    """Random events in a quorum of three controllers and one observer."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        settings = ObserverSettings(
            retention=MetadataRetention(max_bytes=self.random.choice([2_000, 100_000])),
            snapshots=SnapshotPolicy(max_bytes=self.random.choice([700, 100_000])),
        )
        config = LogConfig(retention_ms=-1, retention_bytes=-1, segment_bytes=self.random.choice([600, 1 << 20]))
        self.harness = ObserverHarness(seed=seed, settings=settings, config=config)
        self.quorum = self.harness.quorum
        self.quorum.fetch_bytes = self.random.choice([150, 1 << 20])
        self.quorum.snapshot_bytes = self.random.choice([90, 1 << 20])
        self.quorum.loses = lambda: self.random.random() < 0.05
        self.written = 0
        self.kept = b""
        self.events = [self.write, self.write, self.write, self.replicate, self.replicate, self.replicate, self.elect, self.flip]
        self.events += [self.snapshot]

    async def run(self) -> None:
        self.quorum.elect(1)
        self.quorum.commit()
        self.harness.observer.start()
        for _ in range(STEPS):
            await self.step()
            self.check()
        for member in self.quorum.members.values():
            member.is_up = True
        self.quorum.loses = lambda: False
        self.quorum.elect(next(node for node in self.quorum.members if self.quorum.can_win(node)))
        self.quorum.commit()
        await self.harness.pass_time(6_000, 100)
        self.check()
        await self.harness.nursery.stop()

    async def step(self) -> None:
        choice = self.random.random()
        if choice < 0.1:
            await self.harness.pass_time(self.random.choice([100, 200, 2_000, 60_000]), 100 if self.random.random() < 0.5 else 2_000)
        elif choice < 0.15:
            await self.harness.restart(clean=self.random.random() < 0.5)
        else:
            self.random.choice(self.events)()
            if self.random.random() < 0.7:
                await self.harness.pass_time(self.random.choice([0, 20, 100]))

    def write(self) -> None:
        if self.quorum.leader.is_up:
            self.written += 1
            names = [f"k{self.random.randrange(6)}" for _ in range(self.random.randint(1, 3))]
            self.quorum.write(*(ConfigRecord(2, "topic", name, self.random.choice([None, str(self.written)])) for name in names))

    def replicate(self) -> None:
        if self.quorum.leader.is_up:
            self.quorum.replicate(self.random.choice(list(self.quorum.members)))

    def elect(self) -> None:
        node = self.random.choice(list(self.quorum.members))
        if self.quorum.can_win(node):
            self.quorum.elect(node)

    def flip(self) -> None:
        member = self.random.choice(list(self.quorum.members.values()))
        others = sum(each.is_up for each in self.quorum.members.values() if each is not member)
        member.is_up = not member.is_up or others < 2

    def snapshot(self) -> None:
        leader = self.quorum.leader
        if leader.is_up and leader.high_watermark > 0:
            self.quorum.snapshot(drop_log=self.random.random() < 0.5)

    def check(self) -> None:
        harness, quorum = self.harness, self.quorum
        assert harness.failures == []
        if harness.observer.high_watermark is not None:
            start, end = harness.log.log_start_offset, harness.observer.high_watermark
            committed = quorum.committed_bytes(start, end)
            assert harness.log_bytes[: len(committed)] == committed
        if harness.observer.applied_offset >= 0:
            assert harness.published[-1].image == quorum.image(harness.observer.applied_offset + 1)

    def check_end(self) -> None:
        harness, quorum = self.harness, self.quorum
        assert harness.observer.high_watermark == quorum.high_watermark == harness.observer.end_offset
        assert harness.observer.applied_offset == quorum.high_watermark - 1
        assert harness.observer.controller == quorum.leader.node


@pytest.mark.parametrize("seed", range(30))
def test_observer_publishes_committed_records_in_order_under_random_failures(seed: int) -> None:
    loop = TimelessLoop()
    try:
        scenario = loop.run_until_complete(make_and_run(seed))
    finally:
        loop.close()
    scenario.check_end()


async def make_and_run(seed: int) -> Scenario:
    scenario = Scenario(seed)
    await scenario.run()
    return scenario

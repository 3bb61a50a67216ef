"""No replica is truncated below a high watermark that it had, unless its partition had an unclean election in between.

The model is Kafka's ConsumerBounceTest: brokers are killed, paused and isolated, min.insync.replicas is 1, and sessions are short. Each
seed runs with and without unclean elections.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from ottla.broker.sim.loop import SimLoop
from ottla.broker.sim.nemesis import Fault, Nemesis
from ottla.broker.sim.sim_client import SimClient
from ottla.broker.sim.sim_cluster import SimCluster, run, sleep, until
from ottla.broker.sim.sim_judge import ClusterChecker, unequal_replicas, unsettled
from ottla.broker.sim.sim_producer import ClientHistory, SimProducer
from ottla.broker.sim.simulation import without_gc_and_logging
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest

SEEDS = 4
WORK_MS = 8_000
CHECK_US = 1_000
KINDS = ("kill", "stop", "pause", "isolated", "cut", "one way", "slow")
SETTINGS = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "250",
    "replica.lag.time.max.ms": "1000",
    "min.insync.replicas": "1",
    "controlled.shutdown.enable": "false",
    "replica.fetch.max.bytes": "1024",
}


def bounces(random: Random, begin_ms: int, end_ms: int) -> list[Fault]:
    """Return random faults that take brokers down and bring them back; they may overlap."""
    faults = []
    at_ms = begin_ms
    while (at_ms := at_ms + random.randint(50, 1_200)) < end_ms:
        node = random.randint(1, 3)
        for_ms = random.choice([random.randint(50, 900), random.randint(900, 4_000)])
        faults.append(Fault(at_ms, random.choice(KINDS), node, node % 3 + 1, for_ms, random.random()))
    return faults


class Bounce:
    """One run of a simulated cluster under the faults of a seed."""

    def __init__(self, seed: int, *, unclean: bool) -> None:
        self.random = Random(seed)
        self.loop = SimLoop()  # type: ignore[abstract] # has all that this test needs of a loop
        settings = {**SETTINGS, "unclean.leader.election.enable": str(unclean).lower()}
        self.cluster = SimCluster(self.loop, Random(seed), 3, **settings)
        self.nemesis = Nemesis(self.loop, self.cluster, synced=False)
        self.checker = ClusterChecker(self.cluster)
        self._checked_us = 0

    def run(self) -> None:
        """Run the faults under load, and check the partition's invariants. Raises Violation."""
        run(self.loop, self._run_plan())

    async def _run_plan(self) -> None:
        loop, cluster = self.loop, self.cluster
        loop.on_idle = self._check
        cluster.start()
        assert await until(loop, cluster.all_serve, 20_000), "the cluster does not start"
        await self._create()
        began_ms = loop.now_us // 1_000
        self.nemesis.schedule(bounces(self.random, began_ms + 500, began_ms + WORK_MS))
        for number, acks in enumerate((-1, 1)):
            producer = SimProducer(f"p{number}", cluster, Random(number), ClientHistory(), acks=acks, idempotent=False)
            producer.start(producer.produce([("t", 0), ("t", 1)], began_ms + WORK_MS, 200))
        await sleep(loop, WORK_MS)
        self.nemesis.heal()
        assert await until(loop, lambda: not unsettled(cluster), 180_000, 200), unsettled(cluster)
        self.checker.check()
        assert unequal_replicas(cluster) == []

    async def _create(self) -> None:
        client = SimClient("first", self.cluster, Random(1))
        done = asyncio.Event()

        async def create() -> None:
            await client.call_any(CreateTopicsRequest([CreatableTopic("t", 2, 3)]))
            done.set()

        client.start(create())
        assert await until(self.loop, done.is_set, 20_000), "the topic is not made"

    def _check(self) -> None:
        if self.loop.now_us - self._checked_us >= CHECK_US:
            self._checked_us = self.loop.now_us
            self.checker.check()


def outcome(seed: int, *, unclean: bool) -> tuple[int, int]:
    """Return the number of truncations below a high watermark, and of unclean elections. Raises Violation."""
    with without_gc_and_logging():
        bounce = Bounce(seed, unclean=unclean)
        bounce.run()
        found = bounce.checker.truncations_below_mark, bounce.checker.unclean_elections
        del bounce
    return found


@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_replica_is_cut_below_its_high_watermark_without_an_unclean_election(seed: int, *, unclean: bool) -> None:
    cuts, elections = outcome(seed, unclean=unclean)
    assert unclean or (cuts, elections) == (0, 0)

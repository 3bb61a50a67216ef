"""A replica is never cut below a high watermark that it had, unless an unclean election of its partition comes between.

Whole brokers and their controller live with short sessions, one in-sync replica that is enough, and brokers that die, freeze and are cut off:
what Kafka's ConsumerBounceTest does, with unclean elections allowed and not.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from ottla.broker.sim.loop import SimLoop
from ottla.broker.sim.nemesis import FULL, POWER, Nemesis, drawn
from ottla.broker.sim.sim_client import SimClient
from ottla.broker.sim.sim_cluster import SimCluster, run, sleep, until
from ottla.broker.sim.sim_judge import Watch, unequal_replicas, unsettled
from ottla.broker.sim.sim_producer import ClientHistory, SimProducer
from ottla.broker.sim.simulation import undisturbed
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest

SEEDS = 4
WORK_MS = 8_000
LOOK_US = 1_000
SETTINGS = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "250",
    "replica.lag.time.max.ms": "1000",
    "min.insync.replicas": "1",
    "controlled.shutdown.enable": "false",
    "replica.fetch.max.bytes": "1024",
}


class Bounce:
    """One run."""

    def __init__(self, seed: int, *, unclean: bool) -> None:
        self.random = Random(seed)
        self.loop = SimLoop()  # type: ignore[abstract] # of a loop this is all that is asked for
        settings = {**SETTINGS, "unclean.leader.election.enable": str(unclean).lower()}
        self.cluster = SimCluster(self.loop, Random(seed), 3, **settings)
        self.nemesis = Nemesis(self.loop, self.cluster, synced=False)
        self.watch = Watch(self.cluster, unclean=unclean)
        self._looked_us = 0

    def run(self) -> None:
        """Raises Violation."""
        run(self.loop, self._whole())

    async def _whole(self) -> None:
        loop, cluster = self.loop, self.cluster
        loop.on_idle = self._look
        cluster.start()
        assert await until(loop, cluster.all_serve, 20_000), "the cluster does not start"
        await self._create()
        began_ms = loop.now_us // 1_000
        usual = [fault for fault in drawn(self.random, began_ms + 500, began_ms + WORK_MS, 3) if fault.kind not in {POWER, FULL}]
        self.nemesis.follow(usual)
        for number, acks in enumerate((-1, 1)):
            producer = SimProducer(f"p{number}", cluster, Random(number), ClientHistory(), acks=acks, idempotent=False)
            producer.start(producer.produce([("t", 0), ("t", 1)], began_ms + WORK_MS, 200))
        await sleep(loop, WORK_MS)
        self.nemesis.heal()
        assert await until(loop, lambda: not unsettled(cluster), 180_000, 200), unsettled(cluster)
        self.watch.look()
        assert unequal_replicas(cluster) == []

    async def _create(self) -> None:
        client = SimClient("first", self.cluster, Random(1))
        done = asyncio.Event()

        async def create() -> None:
            await client.anybody(CreateTopicsRequest([CreatableTopic("t", 2, 3)]))
            done.set()

        client.start(create())
        assert await until(self.loop, done.is_set, 20_000), "the topic is not made"

    def _look(self) -> None:
        if self.loop.now_us - self._looked_us >= LOOK_US:
            self._looked_us = self.loop.now_us
            self.watch.look()


def outcome(seed: int, *, unclean: bool) -> tuple[int, int]:
    """Cuts below a high watermark, and unclean elections. Raises Violation."""
    with undisturbed():
        bounce = Bounce(seed, unclean=unclean)
        bounce.run()
        found = bounce.watch.cuts_below, bounce.watch.unclean_elections
        del bounce
    return found


@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_replica_is_cut_below_its_high_watermark_without_an_unclean_election(seed: int, *, unclean: bool) -> None:
    cuts, elections = outcome(seed, unclean=unclean)
    assert unclean or (cuts, elections) == (0, 0)

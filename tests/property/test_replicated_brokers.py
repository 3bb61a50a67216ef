"""Through any failures of real brokers, records acknowledged with acks=all are kept, and the replicas converge."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ottla.broker.core.log_config import LogConfig
from tests.support.replica_brokers import Cluster, run

STEPS = 120


class Campaign:
    """Random steps of a seed. Elections are clean, and only a broker outside the ISR loses unsynced data."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.rng = Random(seed)
        self.waiting: list[tuple[bytes, Callable[[], Any]]] = []
        self.acknowledged: dict[int, bytes] = {}
        self.sent = 0

    async def step(self) -> None:
        rng, cluster = self.rng, self.cluster
        node = rng.choice(sorted(cluster.brokers))
        broker, chance = cluster[node], rng.random()
        if not broker.running:
            if chance < 0.5:
                await self.start(node)
        elif chance < 0.45:
            leader = cluster.state.leader
            await self.produce(leader if rng.random() < 0.8 and leader > 0 and cluster[leader].running else node)
        elif chance < 0.53 or (node in cluster.unreachable and chance < 0.63):
            cluster.unreachable ^= {node}
        elif chance < 0.70:
            await self.crash(node)
        elif chance < 0.76 and node in cluster.state.isr and node in cluster.controller.rules.alive():
            cluster.controller.rules.elect(node)
        elif chance < 0.85:
            broker.learn(cluster.state)
        elif chance < 0.90:
            broker.partition.flush()
        await cluster.pass_time(rng.choice([500, 500, 1_000, 6_000]))
        self.collect()

    async def produce(self, node: int) -> None:
        self.sent += 1
        value = b"%d" % self.sent
        self.waiting.append((value, await self.cluster.produce(node, value, acks=-1)))

    async def crash(self, node: int) -> None:
        rules = self.cluster.controller.rules
        rules.fence(node)
        await self.cluster[node].crash(power=node not in rules.state.isr and self.rng.random() < 0.5)
        await self.cluster.notify()

    async def start(self, node: int) -> None:
        self.cluster.controller.rules.register(node)
        await self.cluster[node].start()
        await self.cluster.notify()

    def collect(self) -> None:
        for value, answer in self.waiting:
            result = answer()
            if result is not None and result.error_code == 0:
                assert self.acknowledged.setdefault(result.base_offset, value) == value, "two records are acknowledged with one offset"
        self.waiting = [one for one in self.waiting if one[1]() is None]
        leader = self.cluster.brokers.get(self.cluster.state.leader)
        if leader is not None and leader.running and leader.partition.leader_epoch == self.cluster.state.leader_epoch:
            self.check(leader.values)

    def check(self, values: list[bytes]) -> None:
        lost = {offset: value for offset, value in self.acknowledged.items() if values[offset : offset + 1] != [value]}
        assert lost == {}, f"acknowledged and lost, of {len(values)}"

    async def heal(self) -> None:
        self.cluster.unreachable.clear()
        for node, broker in self.cluster.brokers.items():
            if not broker.running:
                await self.start(node)
        await self.cluster.notify()
        await self.cluster.pass_time(40_000, step=1_000)
        self.collect()


@pytest.mark.parametrize("seed", range(8))
def test_acknowledged_records_survive_and_all_replica_logs_converge(seed: int) -> None:
    async def body(cluster: Cluster) -> None:
        campaign = Campaign(cluster, seed)
        await cluster.elect(1)
        for _ in range(STEPS):
            await campaign.step()
        await campaign.heal()
        await cluster.produce(cluster.state.leader, b"the last")  # its epoch, too, is then in every log
        await cluster.pass_time(2_000)
        leader = cluster[cluster.state.leader]
        campaign.check(leader.values)
        assert len(campaign.acknowledged) > 2
        assert sorted(cluster.state.isr) == sorted(cluster.brokers)
        for broker in cluster.brokers.values():
            assert broker.segments == leader.segments
            assert broker.partition.log.high_watermark == broker.partition.log.log_end_offset

    run(body, nodes=(1, 2, 3), config=LogConfig(min_insync_replicas=1 + seed % 2))

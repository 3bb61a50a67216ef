from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.cluster.image import PartitionRegistration, ResourceType, TopicImage
from ottla.broker.sim.nemesis import Fault
from ottla.broker.sim.sim_admin import MIN_ISR, SimAdmin
from ottla.broker.sim.simulation import COPY, LOOSE, SOURCE, TOPICS, Plan, simulate
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest

BEHIND = 3
"""Not eligible, and the first to be back."""
NOBODY_IN_SYNC = (
    Fault(100, "isolated", BEHIND, 1, 9_200, 0.5),
    Fault(4_900, "no controller", 1, 2, 9_000, 0.5),
    Fault(4_900, "no controller", 2, 1, 9_000, 0.5),
)
NAMES = (SOURCE, COPY, LOOSE)


async def sets_what_clears_who_is_eligible(self: SimAdmin, until_ms: int) -> None:
    while any(self.cluster.controller.partition(COPY, index).isr for index in range(TOPICS[COPY])):
        await self.pause(50)
    resources = [AlterConfigsResource(ResourceType.TOPIC, name, [AlterableConfig(MIN_ISR, 0, "1")]) for name in NAMES]
    await self.call(BEHIND, IncrementalAlterConfigsRequest(resources))


def test_replica_with_the_longest_log_is_elected_if_no_replica_may_lead_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    first_replica: dict[tuple[str, int], int] = {}
    elect: Any = SimAdmin.elect_longest

    async def noted(self: SimAdmin, topic: TopicImage, index: int, now: PartitionRegistration) -> None:
        first_replica.setdefault((topic.name, index), now.replicas[0])
        await elect(self, topic, index, now)

    monkeypatch.setattr(SimAdmin, "administer", sets_what_clears_who_is_eligible)
    monkeypatch.setattr(SimAdmin, "elect_longest", noted)
    assert simulate(Plan(2, synced=False, work_ms=9_600, faults=NOBODY_IN_SYNC)).violations == []
    assert first_replica.keys() == {(name, index) for name in NAMES for index in range(TOPICS[name])}
    assert BEHIND in first_replica.values(), "which an unclean election would take, and lose what the others committed"

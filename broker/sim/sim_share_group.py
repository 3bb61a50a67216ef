"""The share group of a simulation: its members, which faults kill and pause, and the checks of their deliveries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Final

from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.topic_names import SHARE_GROUP_STATE
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.sim.loop import Process
from ottla.broker.sim.nemesis import CLIENT_DIES, Fault
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.sim.sim_share_judge import GROUP, LIMIT, ShareGroupHistory
from ottla.broker.sim.sim_share_member import SimShareMember
from ottla.broker.testing.contents import Stored
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest

BROKER_SETTINGS: Final = {
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "group.share.record.lock.duration.ms": "4000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": str(LIMIT),
}
_SETTINGS: Final = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
_SET: Final = 0
_MEMBERS: Final = 2


def configuring() -> IncrementalAlterConfigsRequest:
    """Return the request that changes the share group's own settings. Send it, and wait for the response, before the group reads
    anything."""
    configs = [AlterableConfig(name, _SET, value) for name, value in _SETTINGS.items()]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(ResourceType.GROUP, GROUP, configs)])


class SimShareGroup:
    """A simulated share group whose members together read all partitions of `topics`, which maps topic names to numbers of partitions."""

    def __init__(self, cluster: SimCluster, wrong: list[str], topics: Mapping[str, int]) -> None:
        self.cluster, self.topics = cluster, topics
        self.history = ShareGroupHistory(wrong)
        self._members: list[SimShareMember] = []
        self._down: dict[int, Process | None] = {}
        """The members that are dead or paused, by number. The value is a paused member's process, None for a dead member."""

    @property
    def is_configured(self) -> bool:
        return (ResourceType.GROUP, GROUP) in self.cluster.image.configs

    def start(self, random: Callable[[], Random]) -> None:
        """Start the share group's members, each with its own random generator from `random()`. The topics must exist."""
        self.history.topic_ids = {name: self.cluster.image.topic_ids[name] for name in self.topics}
        for number in range(_MEMBERS):
            member = SimShareMember(f"sharer{number}", self.cluster, random(), self.history, list(self.topics))
            self._members.append(member)
            member.start(member.work())

    def fault(self, fault: Fault) -> Callable[[], None]:
        """Kill or pause a member of the share group, as the fault says. Return the function that restarts or resumes the member."""
        number = fault.node % _MEMBERS
        member = self._members[number]
        if number not in self._down:
            self._down[number] = None if fault.kind == CLIENT_DIES else member.process
            if fault.kind == CLIENT_DIES:
                member.kill()
            else:
                self.cluster.loop.pause(member.process)
        return partial(self._restore, number)

    def heal(self) -> None:
        """Restart the killed members and resume the paused ones."""
        for number in list(self._down):
            self._restore(number)

    def _restore(self, number: int) -> None:
        if number not in self._down:
            return
        member, paused = self._members[number], self._down.pop(number)
        if paused is None:
            member.start(member.work())
        else:
            self.cluster.loop.resume(paused)

    def positions(self) -> list[tuple[TopicPartition, int]]:
        """Return the group's start offset in each partition; it is 0 if the partition's leader has not loaded the share state."""
        starts: dict[TopicPartition, int] = {}
        for node in self.cluster.nodes.values():
            for shared in () if node.broker is None else node.broker.services.share.partitions.in_use():
                if shared.loaded and shared.partition.replica.leads:
                    starts[shared.partition.topic, shared.partition.index] = shared.state.start_offset
        tps = [(topic, index) for topic, count in self.topics.items() for index in range(count)]
        return [(tp, starts.get(tp, 0)) for tp in tps]

    def verdict(self, stored: list[Stored], leader: Callable[[TopicPartition], Partition]) -> list[str]:
        """Return a text for each violated rule of share groups after a run. `stored` are the records in the logs of the group's topics;
        `leader` returns a partition's replica on its leader."""
        image = self.cluster.image
        states = image.topics[image.topic_ids[SHARE_GROUP_STATE]].partitions
        return self.history.judge(stored, [leader((SHARE_GROUP_STATE, index)) for index in states])

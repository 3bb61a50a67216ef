"""The base class of all simulated clients. A client is a simulated process with connections to brokers; it learns leaders and coordinators
from the brokers' responses."""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import Any, Final

from ottla.broker.core.timers import Timers
from ottla.broker.net.node_client import NodeClient
from ottla.broker.runtime.nodes.link import LinkBroken, Node
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver, pause
from ottla.broker.sim.loop import Process
from ottla.broker.sim.node_clock import NodeClock
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.schema import Message

BACKOFF_MS: Final = 100
REQUEST_MS: Final = 10_000


class SimClient:
    """A simulated client; `name` is its host name in the simulated network and its client id. When it is killed, a new process without any
    state takes its place."""

    def __init__(self, name: str, cluster: SimCluster, random: Random) -> None:
        self.name, self.cluster, self.random = name, cluster, random
        self.loop = cluster.loop
        cluster.client_hosts.append(name)
        self._begin()

    def _begin(self) -> None:
        self.process = Process(self.name)
        self.clock, self.timers = NodeClock(self.loop), Timers()
        self._driver = TimerDriver(self.timers, self.clock)
        self._links: dict[int, NodeClient] = {}
        self._leaders: dict[TopicPartition, tuple[int, int]] = {}
        self._newest: dict[TopicPartition, int] = {}
        """For each partition, the highest leader epoch seen so far. Metadata with a lower one is out of date (KAFKA Metadata)."""
        self._coordinators: dict[tuple[str, int], int] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine `work` as a task of the client's simulated process."""
        self.loop.spawn(self.process, self._run(work))

    def kill(self) -> None:
        """Kill the client's process, as SIGKILL does; afterwards the client can be started again."""
        self.loop.kill(self.process)
        self.cluster.network.process_died(self.process, power=False)
        self._begin()

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._driver.start()
        await work

    async def pause(self, ms: int = BACKOFF_MS) -> None:
        """Wait `ms` milliseconds of virtual time."""
        await pause(self.timers, self.clock, ms)

    async def call(self, node_id: int, request: Message, version: int | None = None) -> Any:
        """Send a request to the broker `node_id` and return the response. Raises LinkBroken if the connection fails."""
        link = self._links.get(node_id)
        if link is None:
            node = Node(node_id, self.cluster.nodes[node_id].host, 9092)
            link = self._links[node_id] = NodeClient(
                node, self.cluster.network, clock=self.clock, timers=self.timers, random=self.random, client_id=self.name
            )
        return await link.call(request, timeout_ms=REQUEST_MS, version=version)

    async def call_any(self, request: Message, version: int | None = None) -> Any:
        """Send a request to random brokers until one responds; return the response."""
        while True:
            try:
                return await self.call(self.random.choice(list(self.cluster.nodes)), request, version)
            except LinkBroken:
                await self.pause()

    async def leader_of(self, tp: TopicPartition) -> int:
        """Return the node id of the partition's leader. If the client does not know it, request metadata until it does. The answer may be
        out of date."""
        while tp not in self._leaders:
            answer = await self.call_any(MetadataRequest([MetadataRequestTopic(name=tp[0])], allow_auto_topic_creation=False), 12)
            for topic in answer.topics:
                for partition in topic.partitions:
                    key, epoch = (topic.name or "", partition.partition_index), partition.leader_epoch
                    if partition.leader_id >= 0 and epoch >= self._newest.get(key, -1):
                        self._leaders[key], self._newest[key] = (partition.leader_id, epoch), epoch
            if tp not in self._leaders:
                await self.pause()
        return self._leaders[tp][0]

    def leader_epoch_of(self, tp: TopicPartition) -> int:
        """Return the leader epoch of the partition that the client last learned from metadata; -1 if it does not know the leader."""
        return self._leaders.get(tp, (-1, -1))[1]

    def forget_leader(self, tp: TopicPartition) -> None:
        """Forget which broker leads the partition, because the knowledge is or may be wrong. `leader_of` then requests metadata again."""
        self._leaders.pop(tp, None)

    async def coordinator_of(self, key: str, kind: int) -> int:
        """Return the node id of the coordinator of a group (kind 0) or a transactional id (kind 1). If the client does not know it, ask
        brokers until one returns it."""
        while (key, kind) not in self._coordinators:
            answer = await self.call_any(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
            (found,) = answer.coordinators
            if found.error_code == ErrorCode.NONE:
                self._coordinators[key, kind] = found.node_id
            else:
                await self.pause()
        return self._coordinators[key, kind]

    async def ask_coordinator(self, key: str, kind: int, request: Message, version: int | None = None) -> Any:
        """Send a request to the coordinator of a group (kind 0) or transactional id (kind 1) and return the response. Raises LinkBroken if
        the connection fails; the client then forgets the coordinator."""
        node = await self.coordinator_of(key, kind)
        try:
            return await self.call(node, request, version)
        except LinkBroken:
            self._coordinators.pop((key, kind), None)
            raise

    def forget_coordinator(self, key: str, kind: int) -> None:
        """Forget which broker is the coordinator of the group (kind 0) or transactional id (kind 1), because the knowledge is or may be
        wrong."""
        self._coordinators.pop((key, kind), None)

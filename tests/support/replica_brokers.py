"""Real brokers on one loop that replicate one partition: with real frames, disks and a network in memory, and one virtual clock.

Tests publish metadata by hand (`Cluster.elect`), as the controller's records would; a controller in memory answers AlterPartition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from ottla.broker.app import Broker
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.settings_load import load
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.net.node_client import NodeClient
from ottla.broker.replication.brokers import BrokerLiveness, Brokers
from ottla.broker.replication.fetch_plan import FetchLimits
from ottla.broker.replication.in_sync import Accepted, InSyncMember, Proposal
from ottla.broker.replication.leadership import Registration
from ottla.broker.runtime.nodes.controller_channel import ControllerUnreachable
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.replicas.alter_partition_manager import AlterPartitionManager
from ottla.broker.runtime.replicas.fetchers import FetcherParameters, Fetchers
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partition import ClusterContext, Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.memory_network import MemoryNetwork
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.partition_log import Isolation
from ottla.protocol.codec import decode_response
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from ottla.protocol.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse, PartitionResult, TopicResult
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from ottla.protocol.schema import Message
from tests.support.memory_clients import MemoryClient
from tests.support.replicated_partition import Controller
from tests.support.simulation import TimelessLoop, settle

TOPIC, TOPIC_ID = "t", b"\x07" * 16
LAG_MS = 10_000
LEVEL = 30


class ControllerInMemory:
    """Answers AlterPartition by KRaft's rules, as far as the property test of replication needs them, while it is `reachable`."""

    def __init__(self, state: Registration) -> None:
        self.rules = Controller(state)
        self.requests: list[AlterPartitionRequest] = []
        self.reachable = True

    async def call(self, request: Message) -> Any:
        assert isinstance(request, AlterPartitionRequest)
        self.requests.append(request)
        await asyncio.sleep(0)
        if not self.reachable:
            raise ControllerUnreachable("no controller")
        topics = [
            TopicResult(topic.topic_id, [self._answer(request, partition_data) for partition_data in topic.partitions])
            for topic in request.topics
        ]
        return AlterPartitionResponse(topics=topics)

    def _answer(self, request: AlterPartitionRequest, partition_data: Any) -> PartitionResult:
        members = tuple(InSyncMember(state.broker_id, state.broker_epoch) for state in partition_data.new_isr_with_epochs)
        proposal = Proposal(partition_data.leader_epoch, partition_data.partition_epoch, members)
        answer = self.rules.alter(request.broker_id, request.broker_epoch, proposal)
        if not isinstance(answer, Accepted):
            return PartitionResult(partition_data.partition_index, answer)
        isr = sorted(answer.members)
        return PartitionResult(partition_data.partition_index, 0, request.broker_id, answer.leader_epoch, isr, 0, answer.partition_epoch)


class ReplicaBroker:
    """A broker, and its replica of the partition. Its disk (in memory) is kept when the broker crashes or restarts."""

    def __init__(self, node: int, cluster: Cluster) -> None:
        self.node = node
        self.cluster = cluster
        self.endpoint = Node(node, f"node{node}", 9092)
        self.files = MemoryFiles()
        self.brokers = Brokers()
        self.running = False

    async def start(self) -> None:
        """Start the broker, and publish all metadata to it."""
        cluster = self.cluster
        wanted = {"log.dir": f"/{self.endpoint.host}", "node.id": str(self.node), "listeners": f"PLAINTEXT://{self.endpoint.host}:9092"}
        settings = load(wanted, {}, None).settings
        self.broker = Broker(
            settings, Faults(), Environment(cluster.clock, MemoryFiles(), cluster.network, Random(self.node), InlineThreads)
        )
        await self.broker.start()
        services = self.broker.services
        self.brokers.own_epoch = cluster.controller.rules.liveness[self.node].epoch
        self.brokers.liveness = cluster.controller.rules.liveness
        clock, timers = cluster.clock, self.broker.timers
        self.nursery = nursery = Nursery(timers, clock, self.broker.stop_at_once)
        self.proposals = AlterPartitionManager(cluster.controller, self.node, self.brokers, nursery)
        self.flusher = Flusher(self.broker.stop_at_once, InlineThreads)
        self.cluster_context = context = ClusterContext(self.brokers, self.proposals.submit, lambda *_: True, LAG_MS)
        partitions = services.partitions = Partitions(self.flusher, clock, context)
        directory = Path(f"/replicas{self.node}")
        self.log_dir = services.log_dir = LogDir.open(directory, settings, clock.now_ms(), files=self.files, threads=InlineThreads)
        log = self.log_dir.logs.get((TOPIC, 0)) or self.log_dir.create_log(TOPIC, 0, TOPIC_ID, cluster.config)
        log.config = cluster.config
        if log.topic_id != TOPIC_ID:  # a power loss removed the file with the id
            self.log_dir.assign_topic_id(log, TOPIC_ID)
        self.partition: Partition = partitions.add(log)
        connect = partial(
            NodeClient, network=cluster.network, clock=clock, timers=timers, random=Random(self.node), client_id=f"broker-{self.node}"
        )
        parameters = FetcherParameters(
            self.node,
            self.brokers,
            connect,
            cluster.endpoint_of,
            lambda: LEVEL,
            nursery,
            FetchLimits(),
            request_timeout_ms=30_000,
            log_dir=self.log_dir,
            flusher=self.flusher,
        )
        self.fetchers = Fetchers(parameters)
        self.running = True
        self.learn(cluster.controller.rules.state)

    def learn(self, state: Registration) -> None:
        """Publish the live brokers and the partition's leader to this broker."""
        self.brokers.liveness = self.cluster.controller.rules.liveness
        if state.leader == self.node:
            self.fetchers.forget(self.partition)
            self.partition.lead(state)
            return
        begins = self.partition.follow(state)
        if state.leader == -1:
            self.fetchers.forget(self.partition)
        elif begins:
            self.fetchers.follow(self.partition, state.leader)

    async def crash(self, *, power: bool = False) -> None:
        """Kill the broker's process; with `power`, also lose what was not synced."""
        self.running = False
        await self.nursery.stop()
        self.broker.crash()
        self.log_dir.close(clean=False)
        if power:
            self.files.power_loss()
        await settle()

    @property
    def values(self) -> list[bytes]:
        """Return the values of all records in the broker's log."""
        log, found = self.partition.log, []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            chunk = bytes(log.read(offset, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records)
            for position, header in split_batches(chunk):
                offset = header.next_offset
                if not header.is_control:
                    found += [bytes(record.value or b"") for record in iter_records(chunk[position : position + header.size_bytes])]
        return found

    @property
    def segments(self) -> dict[str, bytes]:
        """Return, by file name, the bytes of the broker's segments and of its leader epoch file."""
        names = (".log", "leader-epoch-checkpoint")
        files = self.files.nodes.items()
        return {
            path.name: bytes(node.data) for path, node in sorted(files) if path.parent.name == f"{TOPIC}-0" and path.name.endswith(names)
        }


class Cluster:
    """A cluster of `nodes` that replicate the partition. The controller elects no leader by itself."""

    def __init__(self, nodes: tuple[int, ...] = (1, 2), config: LogConfig | None = None) -> None:
        self.clock = VirtualClock()
        self.network = MemoryNetwork()
        self.config = config or LogConfig()
        self.controller = ControllerInMemory(Registration(nodes[0], nodes, nodes, 0, 0))
        self.brokers = {node: ReplicaBroker(node, self) for node in nodes}
        self.unreachable: set[int] = set()
        for node in nodes:
            self.controller.rules.liveness[node] = BrokerLiveness(100 + node)

    def __getitem__(self, node: int) -> ReplicaBroker:
        return self.brokers[node]

    @property
    def state(self) -> Registration:
        """The current metadata of the cluster."""
        return self.controller.rules.state

    def endpoint_of(self, node: int) -> Node | None:
        return None if node in self.unreachable else self.brokers[node].endpoint

    async def start(self) -> None:
        for broker in self.brokers.values():
            await broker.start()
        await settle()

    async def elect(self, leader: int, isr: tuple[int, ...] | None = None, notified: tuple[int, ...] | None = None) -> None:
        """Begin a new leader epoch with this leader and ISR, and publish it to the brokers in `notified` (None: to all that run)."""
        state, rules = self.state, self.controller.rules
        rules.state = state._replace(
            leader=leader, isr=isr or state.isr, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
        )
        await self.notify(notified)

    async def notify(self, notified: tuple[int, ...] | None = None) -> None:
        """Publish the current metadata to the brokers in `notified` (None: to all that run)."""
        for broker in self.brokers.values():
            if broker.running and (notified is None or broker.node in notified):
                broker.learn(self.state)
        await settle()

    async def register(self, node: int) -> None:
        """Register and start a new incarnation of the broker."""
        rules = self.controller.rules
        rules.liveness[node] = BrokerLiveness(rules.liveness[node].epoch + 100)
        await self.brokers[node].start()
        await settle()

    async def pass_time(self, ms: int, step: int = 500) -> None:
        """Advance the time: run everything that becomes due, and let leaders check for lagging replicas."""
        for _ in range(0, ms, step):
            self.clock.advance(step)
            await settle()
            for broker in self.brokers.values():
                if broker.running:
                    broker.partition.maybe_shrink_isr()
        await settle()

    async def fetch(self, node: int, offset: int, *, replica: int = -1, version: int = 17, rack: str = "", **fields: Any) -> PartitionData:
        """Return the broker's response to a fetch of a consumer, or of broker `replica`, that does not wait."""
        fetch_partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20, **fields)
        state = ReplicaState(replica, self.controller.rules.liveness[replica].epoch if replica in self.brokers else -1)
        topics = [FetchTopic(TOPIC, TOPIC_ID, [fetch_partition])]
        request = FetchRequest(replica_id=replica, replica_state=state, max_wait_ms=0, session_epoch=-1, topics=topics, rack_id=rack)
        response = await self.call(node, request, version)
        data: PartitionData = response.responses[0].partitions[0]
        return data

    async def call(self, node: int, request: Message, version: int) -> Any:
        """Send a request to the broker, and return the response, which must be immediate."""
        waiting = await self.send(node, request, version)
        await settle()
        return waiting()

    async def send(self, node: int, request: Message, version: int) -> Callable[[], Any]:
        """Send a request to the broker `node` without waiting. Return a function that returns the response, or None as long as there is
        none."""
        client = MemoryClient()
        endpoint = self.brokers[node].endpoint
        await self.network.connect(endpoint.host, endpoint.port, lambda: client)
        client.send(request, version)
        await settle()
        return lambda: decode_response(request.API_KEY, version, client.frames[0])[1] if client.frames else None

    async def produce(self, node: int, *values: bytes, acks: int = 1, **batch: Any) -> Callable[[], Any]:
        """Send one batch to the broker `node` without waiting. Return a function that returns the partition's response, or None as long as
        there is none."""
        data = build_batch([SimpleRecord(None, value, self.clock.now_ms()) for value in values], **batch)
        topic = TopicProduceData(topic_id=TOPIC_ID, partition_data=[PartitionProduceData(0, data)])
        waiting = await self.send(node, ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[topic]), 13)

        def answer() -> Any:
            response = waiting()
            return None if response is None else response.responses[0].partition_responses[0]

        return answer

    async def stop(self) -> None:
        for broker in self.brokers.values():
            if broker.running:
                await broker.crash()


def run(body: Callable[[Cluster], Awaitable[None]], nodes: tuple[int, ...] = (1, 2), config: LogConfig | None = None) -> None:
    """Run the test with a cluster of `nodes` on a `TimelessLoop`, whose time only the test advances."""

    async def play() -> None:
        cluster = Cluster(nodes, config)
        await cluster.start()
        try:
            await body(cluster)
        finally:
            await cluster.stop()

    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        runner.run(play())

"""Two brokers on one loop, with a virtual clock, and a network and disks in memory: everything that happens follows from the seed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from hashlib import sha256
from pathlib import Path
from random import Random

from ottla.broker.app import Broker
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.settings_load import load
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.memory_network import MemoryNetwork
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message
from tests.support.memory_clients import MemoryClient
from tests.support.simulation import TimelessLoop, settle

ROOT = Path(__file__).resolve().parents[2]
STEPS = 60
SMALL = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}


class Node:
    def __init__(self, node_id: int, clock: VirtualClock, network: MemoryNetwork, seed: int) -> None:
        self.host = f"node{node_id}"
        self.files = MemoryFiles()
        wanted = {"log.dir": f"/{self.host}", "node.id": str(node_id), "listeners": f"PLAINTEXT://{self.host}:9092", **SMALL}
        self.exit_codes: list[int] = []
        environment = Environment(clock, self.files, network, Random(seed), InlineThreads)
        self.broker = Broker(load(wanted, {}, None).settings, Faults(), environment, exit_now=self.exit_codes.append)


class Run:
    """The result of one run: `frames` are all responses by node, in order; `files` the contents of each disk at the end."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = VirtualClock()
        self.network = MemoryNetwork()
        self.nodes = [Node(number, self.clock, self.network, self.random.getrandbits(64)) for number in (1, 2)]
        self.clients: list[MemoryClient] = []
        self.files: list[dict[Path, bytes]] = []
        with asyncio.Runner(loop_factory=TimelessLoop) as runner:
            runner.run(self._go())

    async def _go(self) -> None:
        for node in self.nodes:
            await node.broker.start()
            for _ in range(2):  # one may wait in a join while the other continues
                client = MemoryClient()
                await self.network.connect(node.host, 9092, lambda client=client: client)
                self.clients.append(client)
        for client in self.clients:
            client.send(CreateTopicsRequest([CreatableTopic("t", 2, 1)]), 7)
            client.send(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
            client.send(FindCoordinatorRequest(key_type=1, coordinator_keys=["a"]), 4)
        await settle()
        for _ in range(STEPS):
            self.random.choice(self.clients).send(*self._request())
            await settle()
            if self.random.random() < 0.3:
                self.clock.advance(self.random.randrange(1, 10_000))
                await settle()
        self.clock.advance(400_000)
        await settle()
        for node in self.nodes:
            await node.broker.stop()
            assert node.exit_codes == []
            self.files.append({path: bytes(found.data) for path, found in sorted(node.files.nodes.items())})

    def _request(self) -> tuple[Message, int]:
        draw = self.random
        match draw.randrange(6):
            case 0:
                return CreateTopicsRequest([CreatableTopic(f"t{draw.randrange(9)}", draw.randrange(1, 4), 1)]), 7
            case 1:
                batch = build_batch([SimpleRecord(None, draw.randbytes(20), self.clock.now_ms())])
                data = TopicProduceData("t", partition_data=[PartitionProduceData(draw.randrange(2), batch)])
                return ProduceRequest(acks=draw.choice([-1, 1]), timeout_ms=1_000, topic_data=[data]), 9
            case 2:
                protocol = JoinGroupRequestProtocol("range", draw.randbytes(4))
                return JoinGroupRequest("g", 6_000, 6_000, "", None, "consumer", [protocol]), 3
            case 3:
                return InitProducerIdRequest(draw.choice([None, "a", "b"]), 60_000), 4
            case 4:
                topic = FetchTopic("t", partitions=[FetchPartition(draw.randrange(2), partition_max_bytes=1_000)])
                return FetchRequest(max_wait_ms=500, min_bytes=10_000, max_bytes=10_000, session_epoch=0, topics=[topic]), 12
            case _:
                return MetadataRequest(), 12

    @property
    def frames(self) -> list[list[bytes]]:
        return [client.frames for client in self.clients]

    @property
    def digest(self) -> str:
        return sha256(repr((self.frames, self.files)).encode()).hexdigest()


def test_equal_seeds_give_byte_identical_runs_and_another_seed_differs() -> None:
    threads = threading.active_count()
    first, again, other = Run(7), Run(7), Run(8)
    assert sum(map(len, first.frames)) > STEPS / 2
    for topic in ("t", "__consumer_offsets", "__transaction_state"):  # the run used all three
        assert any(data for path, data in first.files[0].items() if path.suffix == ".log" and path.parent.name.startswith(f"{topic}-"))
    assert first.frames == again.frames
    assert first.files == again.files
    assert first.frames != other.frames
    assert first.files != other.files
    assert threading.active_count() == threads


def test_two_brokers_of_one_run_draw_different_random_values() -> None:
    run = Run(7)
    metas = [files[Path(f"/node{number}/meta.properties")] for number, files in enumerate(run.files, 1)]
    assert metas[0] != metas[1]


def test_run_does_not_depend_on_the_hash_seed() -> None:
    code = "from tests.scenario.test_two_brokers_in_one_loop import Run; print(Run(7).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1


def test_advancing_a_shared_clock_wakes_both_brokers() -> None:
    clock, network = VirtualClock(), MemoryNetwork()
    nodes = [Node(number, clock, network, number) for number in (1, 2)]

    async def body() -> list[int]:
        clients = []
        for node in nodes:
            await node.broker.start()
            client = MemoryClient()
            await network.connect(node.host, 9092, lambda client=client: client)
            client.send(CreateTopicsRequest([CreatableTopic("t", 1, 1)]), 7)
            fetch = FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1_000)])
            client.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[fetch]), 12)
            clients.append(client)
        await settle()
        before = [len(client.frames) for client in clients]
        clock.advance(60_000)
        await settle()
        after = [len(client.frames) for client in clients]
        for node in nodes:
            await node.broker.stop()
        return before + after

    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        assert runner.run(body()) == [1, 1, 2, 2]

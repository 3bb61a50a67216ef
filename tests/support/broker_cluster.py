"""A cluster of whole brokers on one event loop, with virtual time, and disks and a network in memory, under a controller that follows
KRaft's rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from ottla.broker.app import Broker
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.settings_load import load
from ottla.broker.core.timers import Timers
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.net.node_client import NodeClient
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.memory_network import MemoryNetwork
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.broker.storage.formatting import format_directory
from ottla.protocol.schema import Message
from tests.support.kraft_controller import KraftController
from tests.support.memory_clients import BrokerNetwork
from tests.support.simulation import TimelessLoop, settle

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
PATIENCE_MS = 120_000


class Member:
    """A broker with its disk, which outlives the broker's process. `exit_codes` are the codes with which its process would have ended."""

    def __init__(self, node_id: int, cluster: BrokerCluster, settings: dict[str, str]) -> None:
        self.node_id = node_id
        self.host = f"node{node_id}"
        self.exit_codes: list[int] = []
        self.broker: Broker | None = None
        self.network = BrokerNetwork(cluster.network)
        self._cluster = cluster
        self._settings = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "log.dir": f"/{self.host}",
            "listeners": f"PLAINTEXT://{self.host}:9092",
            "controller.quorum.bootstrap.servers": "c3000:9093",
            "controller.listener.names": "CONTROLLER",
            "broker.rack": f"rack{node_id}",
            **settings,
        }
        self.format(cluster)

    def format(self, cluster: BrokerCluster) -> None:
        """Give the broker a new disk with a formatted data directory, which has a new directory id."""
        self.files = MemoryFiles()
        directory, levels = Path(self._settings["log.dir"]), bootstrap_levels({}, None, dynamic_quorum=True)
        format_directory(directory, CLUSTER_ID, self.node_id, levels, 0, files=self.files, random_bytes=cluster.random.randbytes)

    async def start(self) -> None:
        cluster = self._cluster
        environment = Environment(cluster.clock, self.files, self.network, Random(cluster.random.getrandbits(64)), InlineThreads)
        self.broker = Broker(load(self._settings, {}, None).settings, Faults(), environment, exit_now=self.exit_codes.append)
        await self.broker.start()

    async def stop(self) -> None:
        broker, self.broker = self._running(), None
        await broker.stop()

    def crash(self, *, power_loss: bool = False) -> None:
        """Kill the broker, as SIGKILL does; with `power_loss`, also lose what was not synced."""
        broker, self.broker = self._running(), None
        broker.crash()
        if power_loss:
            self.files.power_loss()

    def knows(self, topic: str) -> bool:
        return self._running().services.topics.topic(topic) is not None

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self._running().services.partitions.get(topic, index)

    def records_of(self, topic: str, index: int = 0) -> bytes:
        """Return the bytes of this broker's log of a partition."""
        log = self.partition(topic, index).log
        return b"".join(bytes(self.files.read_bytes(segment.path)) for segment in log.segments)

    def _running(self) -> Broker:
        assert self.broker is not None, f"{self.host} does not run"
        return self.broker


class BrokerCluster:
    """A cluster of `size` brokers, with ids from 1, and one controller. Everything follows from the seed."""

    def __init__(self, size: int = 3, seed: int = 1, **settings: str) -> None:
        self.random = Random(seed)
        self.clock = VirtualClock()
        self.timers = Timers()
        self.network = MemoryNetwork()
        self.controller = KraftController(self.clock, self.timers, self.random)
        wanted = {name.replace("_", "."): value for name, value in settings.items()}
        self.members = {number: Member(number, self, wanted) for number in range(1, size + 1)}
        self._driver = TimerDriver(self.timers, self.clock)
        self._clients: dict[int, NodeClient] = {}

    async def start(self) -> None:
        self._driver.start()
        await self.start_controller()
        await self.all(member.start() for member in self.members.values())

    async def stop(self) -> None:
        """Stop the cluster's running brokers one after the other."""
        for member in self.members.values():
            if member.broker is not None:
                await self.done(member.stop())
        for client in self._clients.values():
            client.close()
        await self.stop_controller()
        self._driver.stop()

    async def start_controller(self) -> None:
        await self.controller.start(self.network)

    async def stop_controller(self) -> None:
        self.controller.stop()

    # --- time --------------------------------------------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Advance the time from one timer to the next, until the condition `holds`. Raises AssertionError with `what` after PATIENCE_MS
        milliseconds of virtual time."""
        end_ms = self.clock.mono_ms() + PATIENCE_MS
        await settle()
        while not holds():
            assert self.clock.mono_ms() < end_ms, f"waited in vain until {what}"
            self._to_the_next_timer(end_ms)
            await settle()

    async def pass_ms(self, ms: int) -> None:
        end_ms = self.clock.mono_ms() + ms
        while self.clock.mono_ms() < end_ms:
            self._to_the_next_timer(end_ms)
            await settle()

    async def stall(self, ms: int) -> None:
        """Advance all clocks by `ms` without running any node, as if the event loop were blocked for so long."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, TimelessLoop)
        loop.stalled_ms += ms
        self.clock.advance(ms)
        await settle()

    async def done(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Advance the time until `work` (a coroutine) is done; return its result."""
        task = asyncio.ensure_future(work)
        await self.until(task.done, "it is done")
        return task.result()

    async def all(self, works: Iterable[Awaitable[object]]) -> None:
        await self.done(_gathered(works))

    def _to_the_next_timer(self, end_ms: int) -> None:
        now_ms = self.clock.mono_ms()
        due = [at for at in (timers.next_deadline() for timers in self.all_timers()) if at is not None]
        self.clock.advance(max(1, min([end_ms, *due]) - now_ms))

    def all_timers(self) -> list[Timers]:
        """Return the scheduled timers of all nodes in the cluster."""
        return [self.timers, *(member.broker.timers for member in self.members.values() if member.broker is not None)]

    # --- clients -----------------------------------------------------------------------------------------------------------------

    async def ask(self, node_id: int, request: Message, version: int | None = None) -> Any:
        """Send a client's request to one broker, and return the response."""
        return await self.done(self.asking(node_id, request, version))

    async def asking(self, node_id: int, request: Message, version: int | None = None) -> Any:
        """Send a client's request to one broker, and return the response. Another coroutine must advance the time meanwhile. Raises
        LinkBroken."""
        client = self._clients.get(node_id)
        if client is None:
            node = Node(node_id, self.members[node_id].host, 9092)
            client = NodeClient(node, self.network, clock=self.clock, timers=self.timers, random=self.random, client_id="client")
            self._clients[node_id] = client
        return await client.call(request, timeout_ms=PATIENCE_MS, version=version)


async def _gathered(works: Iterable[Awaitable[object]]) -> None:
    await asyncio.gather(*works)


def in_a_cluster(body: Callable[[BrokerCluster], Awaitable[None]], size: int = 3, seed: int = 1, **settings: str) -> None:
    """Run the test in a started cluster of `size` brokers, then stop the cluster. Asserts that no broker has ended its process."""

    run_in_a_cluster(lambda: BrokerCluster(size, seed, **settings), body)


C = TypeVar("C", bound=BrokerCluster)


def run_in_a_cluster(make: Callable[[], C], body: Callable[[C], Awaitable[None]]) -> None:
    """Run the test in a cluster that `make` makes, like `in_a_cluster`."""

    async def run() -> None:
        cluster = make()
        await cluster.start()
        await body(cluster)
        await cluster.stop()
        assert [member.exit_codes for member in cluster.members.values()] == [[] for _ in cluster.members]

    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        runner.run(run())

"""Brokers and their controller as processes of a simulation, each on a host, a disk and a clock of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final

from ottla.broker.app import Broker
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.core.settings_load import load
from ottla.broker.core.threads import Threads
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Faults
from ottla.broker.process import StartError
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver
from ottla.broker.sim.kraft_controller import KraftController
from ottla.broker.sim.loop import Died, Process, ProcessLife, SimLoop
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.node_clock import NodeClock
from ottla.broker.sim.sim_network import SimNetwork
from ottla.broker.sim.sim_threads import InlineThreads, SimThreads
from ottla.broker.storage.formatting import format_directory
from ottla.broker.world import World

CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
CONTROLLER_HOST: Final = "c3000"
RESTART_US: Final = 500_000
SYNC_US: Final = (50, 5_000)
"""How long a step of a thread takes, from and to: an fsync is two."""


class SimNode:
    """A broker's place: host, disk and clock outlive the broker. `broker` is there from when it was begun until its process ends; `serves`
    says that it has started."""

    def __init__(self, node_id: int, loop: SimLoop, network: SimNetwork, random: Random, settings: dict[str, str]) -> None:
        self.node_id, self.host = node_id, f"node{node_id}"
        self.loop, self.network, self.random = loop, network, random
        self.clock = NodeClock(loop, skew_ms=random.randint(-2_000, 2_000), drift=random.randint(-5_000, 5_000))
        self.files = MemoryFiles()
        self.process: Process | None = None
        self.broker: Broker | None = None
        self.serves = self.wanted = False
        self.ends: list[str] = []
        """Why processes of it ended by themselves; empty for what was told to."""
        self.sync_us = SYNC_US
        self.on_disk_call: Callable[[str, Path], None] = lambda operation, path: None
        self._settings = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "log.dir": f"/{self.host}",
            "listeners": f"PLAINTEXT://{self.host}:9092",
            "controller.quorum.bootstrap.servers": f"{CONTROLLER_HOST}:9093",
            "controller.listener.names": "CONTROLLER",
            **settings,
        }
        levels = bootstrap_levels({}, None, dynamic_quorum=True)
        directory = Path(self._settings["log.dir"])
        format_directory(directory, CLUSTER_ID, node_id, levels, 0, files=self.files, random_bytes=random.randbytes)

    @property
    def is_up(self) -> bool:
        """Whether it has a process."""
        return self.process is not None and self.process.life is not ProcessLife.DEAD

    def start(self) -> None:
        """Begins a process, as soon as there is none."""
        self.wanted = True
        if self.is_up:
            return
        self.process = process = Process(self.host)
        self.network.power_is_back(self.host)
        self.files.on_call = self._disk_of(process)
        world = World(self.clock, self.files, self.network, Random(self.random.getrandbits(64)), self._threads())
        self.loop.spawn(process, self._live(world))

    def kill(self, *, power: bool = False) -> None:
        """As SIGKILL ends it; without `power` what was not synced is lost, too, and nobody is told."""
        self.wanted = False
        process = self.process
        if process is None or process.life is ProcessLife.DEAD:
            return
        process.relics.append(self.broker)
        self.loop.kill(process)
        self.network.process_died(process, power=power)
        if power:
            self.files.power_loss(self.random)
        else:
            self.files.process_died()
        self.broker, self.serves = None, False

    def stop(self) -> None:
        """As SIGTERM ends it: it leaves the cluster, and closes its logs."""
        if self.broker is not None and self.process is not None and self.serves:
            self.wanted = self.serves = False
            self.loop.spawn(self.process, self._stop(self.broker))

    def exit(self, why: str) -> None:
        """Its process ends itself, amid what it does, and is started again."""
        if not self.is_up:
            raise Died(f"{self.host} has no process")
        self.ends.append(why)
        wanted = self.wanted
        self.kill()
        if wanted:
            self.loop.call_in_us(RESTART_US, self.start, context=self.network.context)
        raise Died(f"{self.host}: {why}")

    async def _stop(self, broker: Broker) -> None:
        await broker.stop()
        self.exit("")

    async def _live(self, world: World) -> None:
        settings = load(self._settings, {}, None).settings
        self.broker = broker = Broker(settings, Faults(), world, exit_now=lambda code: self.exit(f"ended with {code}"))
        try:
            await broker.start()
        except (StartError, OSError) as error:
            self.exit(f"did not start: {error}")
        self.serves = True

    def _disk_of(self, process: Process) -> Callable[[str, Path], None]:
        def asked(operation: str, path: Path) -> None:
            if process.life is ProcessLife.DEAD:
                raise Died(f"{self.host} has no process")
            self.on_disk_call(operation, path)

        return asked

    def _threads(self) -> Threads:
        def made(count: int, name: str) -> SimThreads | InlineThreads:
            # Who closes the logs waits for the disk without letting the loop go on.
            return InlineThreads(count, name) if name == "close" else SimThreads(self.loop, lambda: self.random.randint(*self.sync_us))

        return made


class SimCluster:
    """`size` brokers, with ids from 1, and a controller."""

    def __init__(self, loop: SimLoop, random: Random, size: int = 3, **settings: str) -> None:
        self.loop = loop
        self.network = SimNetwork(loop, Random(random.getrandbits(64)))
        wanted = {name.replace("_", "."): value for name, value in settings.items()}
        self.nodes = {node: SimNode(node, loop, self.network, Random(random.getrandbits(64)), wanted) for node in range(1, size + 1)}
        self.client_hosts: list[str] = []
        self.controller_process = Process(CONTROLLER_HOST)
        clock, timers = NodeClock(loop), Timers()
        self.controller = KraftController(clock, timers, Random(random.getrandbits(64)))
        self._driver = TimerDriver(timers, clock)

    def start(self) -> None:
        """Begins everything."""
        self.loop.spawn(self.controller_process, self._start_controller())
        for node in self.nodes.values():
            node.start()

    async def _start_controller(self) -> None:
        self._driver.start()
        await self.controller.start(self.network)

    def all_serve(self) -> bool:
        """Whether every broker has started, and nobody is fenced."""
        brokers = self.controller.image.brokers
        return all(node.serves and node.node_id in brokers and not brokers[node.node_id].fenced for node in self.nodes.values())


async def sleep(loop: SimLoop, ms: float) -> None:
    """Until so much time has passed in the simulation."""
    passed: asyncio.Future[None] = loop.create_future()
    loop.call_in_us(round(ms * 1000), passed.set_result, None)
    await passed


async def until(loop: SimLoop, holds: Callable[[], bool], at_most_ms: int, every_ms: int = 20) -> bool:
    """Waits until it holds; False where it did not in that time."""
    end_us = loop.now_us + at_most_ms * 1000
    while not holds():
        if loop.now_us >= end_us:
            return False
        await sleep(loop, every_ms)
    return True


def run(loop: SimLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """Runs the work to its end, and nothing after that."""
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()

"""The brokers and the controller of a simulation. Each is a simulated process with its own host, disk and clock."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final

from ottla.broker.app import Broker
from ottla.broker.cluster.image import MetadataImage, PartitionRegistration
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.controller_node import ControllerNode
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import load
from ottla.broker.core.threads import Threads
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.layout import CONTROLLER_ID, LISTENER
from ottla.broker.process import StartError
from ottla.broker.runtime.quorum.controller_role import ControllerRole
from ottla.broker.sim.loop import Process, ProcessKilled, ProcessState, SimLoop
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.node_clock import NodeClock
from ottla.broker.sim.sim_network import SimNetwork
from ottla.broker.sim.sim_threads import InlineThreads, SimThreads
from ottla.broker.storage.formatting import format_directory

CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
CONTROLLER_HOST: Final = f"c{CONTROLLER_ID}"
CONTROLLER_PORT: Final = 9093
MIN_ISR: Final = 2
"""The setting min.insync.replicas of every simulated node."""
SESSION_MS: Final = 4_000
"""The settings broker.session.timeout.ms and replica.lag.time.max.ms of every simulated node. They are much shorter than the faults, so
that the controller reacts to a fault before it ends."""
RESTART_US: Final = 500_000
SYNC_US: Final = (50, 5_000)
"""The shortest and the longest duration, in microseconds, of one step of work on a simulated thread. An fsync takes two steps."""


class SimNode(ABC):
    """A simulated node: its id and host, its disk and its clock. They stay when the node's process is killed and another one is started.
    `serves` is true after the current process has completed its start."""

    def __init__(self, place: tuple[int, str], loop: SimLoop, network: SimNetwork, random: Random, settings: dict[str, str]) -> None:
        self.node_id, self.host = place
        self.loop, self.network, self.random = loop, network, random
        self.clock = NodeClock(loop, skew_ms=random.randint(-2_000, 2_000), drift=random.randint(-5_000, 5_000))
        self.files = MemoryFiles()
        self.process: Process | None = None
        self.serves = self.wanted = False
        self.ends: list[str] = []
        """One text for each process of this node that ended without being killed by a fault: the reason, or an empty text after a requested
        clean stop."""
        self.sync_us = SYNC_US
        self._stalled_until_us = 0  # when the last step ends that began in the running process while the disk was stalled
        self.on_disk_call: Callable[[str, Path], None] = lambda operation, path: None
        self._running: Broker | ControllerNode | None = None
        self._settings = {
            "node.id": str(self.node_id),
            "log.dir": f"/{self.host}",
            "controller.quorum.bootstrap.servers": f"{CONTROLLER_HOST}:{CONTROLLER_PORT}",
            "controller.listener.names": LISTENER,
            "metadata.log.max.record.bytes.between.snapshots": "8000",
            **settings,
        }

    @property
    def is_up(self) -> bool:
        """Whether the node has a running process."""
        return self.process is not None and self.process.state is not ProcessState.DEAD

    @property
    def disk_is_stalled(self) -> bool:
        """Whether a fault stalls the disk now, or the running process still waits for an operation that began while the disk was
        stalled."""
        return self.sync_us != SYNC_US or self.loop.now_us < self._stalled_until_us

    def start(self) -> None:
        """Start a process of this node if none runs."""
        self.wanted = True
        if self.is_up:
            return
        self.process = process = Process(self.host)
        self._stalled_until_us = 0
        self.network.power_restored(self.host)
        self.files.on_call = self._disk_of(process)
        environment = Environment(self.clock, self.files, self.network, Random(self.random.getrandbits(64)), self.threads())
        self.loop.spawn(process, self._live(environment))

    def kill(self, *, power: bool = False) -> None:
        """Kill the node's process, as SIGKILL does. With `power`, simulate a power loss: unsynced data is lost, and the other ends of
        connections are not notified."""
        self.wanted = False
        process = self.process
        if process is None or process.state is ProcessState.DEAD:
            return
        process.leftovers.append(self._running)
        self.loop.kill(process)
        self.network.process_died(process, power=power)
        if power:
            self.files.power_loss(self.random)
        else:
            self.files.process_died()
        self._running, self.serves = None, False

    def stop(self) -> None:
        """Stop the node's process cleanly, as SIGTERM does: a broker performs a controlled shutdown and closes its logs."""
        if self._running is not None and self.process is not None and self.serves:
            self.wanted = self.serves = False
            self.loop.spawn(self.process, self._stop(self._running))

    def exit(self, why: str) -> None:
        """End the node's process because the broker or controller itself wants to exit, for the reason `why`. Start it again later, except
        after a requested stop. Always raises ProcessKilled, which ends the current call."""
        if not self.is_up:
            raise ProcessKilled(f"{self.host} has no process")
        self.ends.append(why)
        wanted = self.wanted
        self.kill()
        if wanted:
            self.loop.call_in_us(RESTART_US, self.start, context=self.network.context)
        raise ProcessKilled(f"{self.host}: {why}")

    def _format(self, **more: Any) -> None:
        path, levels = Path(self._settings["log.dir"]), bootstrap_levels({}, None, dynamic_quorum=True)
        format_directory(path, CLUSTER_ID, self.node_id, levels, 0, files=self.files, random_bytes=self.random.randbytes, **more)

    async def _stop(self, running: Broker | ControllerNode) -> None:
        await running.stop()
        self.exit("")

    async def _live(self, environment: Environment) -> None:
        settings = load(self._settings, {}, None).settings
        self._running = running = self._made(settings, environment)
        try:
            await running.start()
        except (StartError, OSError) as error:
            self.exit(f"did not start: {error}")
        self.serves = True

    @abstractmethod
    def _made(self, settings: BrokerSettings, environment: Environment) -> Broker | ControllerNode: ...

    def _disk_of(self, process: Process) -> Callable[[str, Path], None]:
        def on_disk_call(operation: str, path: Path) -> None:
            if process.state is ProcessState.DEAD:
                raise ProcessKilled(f"{self.host} has no process")
            self.on_disk_call(operation, path)

        return on_disk_call

    def threads(self) -> Threads:
        """Return the function with which a process of this node makes its simulated thread pools."""

        def made(count: int, name: str) -> SimThreads | InlineThreads:
            # Closing the logs blocks the loop until the disk is done.
            return InlineThreads(count, name) if name == "close" else SimThreads(self.loop, self._step_us)

        return made

    def _step_us(self) -> int:
        step_us = self.random.randint(*self.sync_us)
        if self.sync_us != SYNC_US:
            self._stalled_until_us = max(self._stalled_until_us, self.loop.now_us + step_us)
        return step_us


class SimBroker(SimNode):
    """A simulated broker node. `broker` is the broker object in the node's running process; None if no process runs."""

    def __init__(self, node_id: int, loop: SimLoop, network: SimNetwork, random: Random, settings: dict[str, str]) -> None:
        host = f"node{node_id}"
        own = {"process.roles": "broker", "listeners": f"PLAINTEXT://{host}:9092", **settings}
        super().__init__((node_id, host), loop, network, random, own)
        self._format()

    @property
    def broker(self) -> Broker | None:
        assert not isinstance(self._running, ControllerNode)
        return self._running

    def _made(self, settings: BrokerSettings, environment: Environment) -> Broker:
        return Broker(settings, Faults(), environment, exit_now=lambda code: self.exit(f"ended with {code}"))


class SimController(SimNode):
    """The simulated controller node. `image` is the newest metadata image that was committed and published; `on_committed` is called with
    each such image."""

    def __init__(self, loop: SimLoop, network: SimNetwork, random: Random, settings: dict[str, str]) -> None:
        listener = f"{LISTENER}://{CONTROLLER_HOST}:{CONTROLLER_PORT}"
        own = {"process.roles": "controller", "listeners": listener, "advertised.listeners": "", **settings}
        super().__init__((CONTROLLER_ID, CONTROLLER_HOST), loop, network, random, own)
        self._format(is_controller=True, voter_at=[VoterEndpoint(LISTENER, CONTROLLER_HOST, CONTROLLER_PORT)])
        self.image = MetadataImage()
        self.on_committed: Callable[[MetadataImage], None] = lambda image: None

    @property
    def role(self) -> ControllerRole | None:
        """The controller role of the running process; None until the process has started."""
        assert not isinstance(self._running, Broker)
        return self._running.role if self._running is not None and self.serves else None

    @property
    def can_commit(self) -> bool:
        """Whether the controller can commit changes of the metadata now: its process serves and is not paused, and its disk is not
        stalled."""
        process = self.process
        return self.serves and process is not None and process.state is ProcessState.RUNNING and not self.disk_is_stalled

    def partition(self, topic: str, index: int = 0) -> PartitionRegistration:
        return self.image.topics[self.image.topic_ids[topic]].partitions[index]

    def _made(self, settings: BrokerSettings, environment: Environment) -> ControllerNode:
        return ControllerNode(settings, environment, exit_now=lambda code: self.exit(f"ended with {code}"))

    async def _live(self, environment: Environment) -> None:
        await super()._live(environment)
        role = self.role
        assert role is not None
        role.followers.append(self._committed)
        self._committed(role.newest)

    def _committed(self, published: Published) -> None:
        self.image = published.image
        self.on_committed(published.image)


class SimCluster:
    """A simulated cluster of one controller and `size` brokers with ids from 1. `nodes` maps ids to brokers; `all_nodes` has the controller
    as well."""

    def __init__(self, loop: SimLoop, random: Random, size: int = 3, **settings: str) -> None:
        self.loop = loop
        self.network = SimNetwork(loop, Random(random.getrandbits(64)))
        wanted = {name.replace("_", "."): value for name, value in settings.items()}
        self.nodes = {node: SimBroker(node, loop, self.network, Random(random.getrandbits(64)), wanted) for node in range(1, size + 1)}
        self.client_hosts: list[str] = []
        self.controller = SimController(loop, self.network, Random(random.getrandbits(64)), wanted)
        self.all_nodes: dict[int, SimNode] = {**self.nodes, CONTROLLER_ID: self.controller}

    @property
    def image(self) -> MetadataImage:
        """The newest metadata image that the controller has committed."""
        return self.controller.image

    def start(self) -> None:
        """Start a process on every node of the cluster."""
        for node in self.all_nodes.values():
            node.start()

    def all_serve(self) -> bool:
        """Return whether every node has started, and no broker is fenced."""
        brokers = self.image.brokers
        return self.controller.serves and all(
            node.serves and node.node_id in brokers and not brokers[node.node_id].fenced for node in self.nodes.values()
        )


async def sleep(loop: SimLoop, ms: float) -> None:
    """Wait `ms` milliseconds of virtual time."""
    passed: asyncio.Future[None] = loop.create_future()
    loop.call_in_us(round(ms * 1000), passed.set_result, None)
    await passed


async def until(loop: SimLoop, holds: Callable[[], bool], at_most_ms: int, every_ms: int = 20) -> bool:
    """Wait until `holds` returns True, and return True. If it does not within `at_most_ms` milliseconds of virtual time, return False.
    `holds` is called every `every_ms` milliseconds."""
    end_us = loop.now_us + at_most_ms * 1000
    while not holds():
        if loop.now_us >= end_us:
            return False
        await sleep(loop, every_ms)
    return True


def run(loop: SimLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """Run the coroutine `work` on the simulated event loop to its end, close the loop, and return the result."""
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()

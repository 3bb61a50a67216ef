"""The faults of a simulation. The list of faults is drawn before the run, so that a run can be repeated with fewer faults. The part that
injects them is called nemesis, as in Jepsen.

Rule: a fault must not exceed what Kafka tolerates without losing acknowledged records.
- Without flush.messages=1, acknowledged records may be only in the page caches of the replicas. So a node loses power only while every
  partition has its full ISR, and no other fault begins until the controller has reacted.
- With flush.messages=1, every acknowledged record is on disk, so any number of nodes may lose power at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from ottla.broker.layout import CONTROLLER_ID
from ottla.broker.sim.loop import SimLoop
from ottla.broker.sim.sim_cluster import CONTROLLER_HOST, SYNC_US, SimCluster, SimNode

SLOW_US: Final = (20_000, 600_000)
STALLED_US: Final = (500_000, 8_000_000)
LOSS: Final = 0.02
FULL, POWER, STALLS, CLIENT_DIES, ZOMBIE = "full", "power", "stalls", "client dies", "zombie client"
OF_ANY_NODE: Final = (
    "kill",
    "stop",
    "pause",
    POWER,
    "dies amid a write",
    "one way",
    "isolated",
    "cut",
    "loses",
    "slow",
    STALLS,
    "skew",
    FULL,
)
KINDS: Final = (*OF_ANY_NODE, "no controller", CLIENT_DIES, ZOMBIE)
_OF_CONTROLLER: Final = 0.15
"""The probability (0 to 1) that a fault of a kind that can hit any node hits the controller instead of a broker."""
_BLACKOUT: Final = 0.3
"""The probability (0 to 1) that a power loss hits all brokers at once, if that is allowed."""


@dataclass(frozen=True)
class Fault:
    """One planned fault. `kind` is what happens, `node` the node to which it happens, `peer` the node at the other end of a link. It begins
    at `at_ms` and lasts `for_ms` milliseconds of virtual time. `draw` is a random number from 0 to 1, from which further details follow."""

    at_ms: int
    kind: str
    node: int
    peer: int
    for_ms: int
    draw: float

    def __str__(self) -> str:
        return f"{self.at_ms / 1000:8.3f} s  {self.kind} {self.node} for {self.for_ms / 1000:.3f} s"


def draw_faults(random: Random, begin_ms: int, end_ms: int, nodes: int, sure: tuple[str, ...] = ()) -> list[Fault]:
    """Draw random faults between the times `begin_ms` and `end_ms` of a run with `nodes` brokers. First draw one to five kinds of faults,
    and add the kinds in `sure`; each fault is then of one of these kinds."""
    kinds = [*random.sample(KINDS, random.randint(1, 5)), *sure]
    every_ms = random.choice([400, 1_200, 3_000])
    faults = []
    at_ms = begin_ms
    while (at_ms := at_ms + random.randint(1, 2 * every_ms)) < end_ms:
        node = random.randint(1, nodes)
        peer = (node + random.randint(0, nodes - 2)) % nodes + 1
        for_ms = random.choice([random.randint(1, 1_000), random.randint(1_000, 8_000), random.randint(8_000, 20_000)])
        kind = random.choice(kinds)
        if kind in OF_ANY_NODE and random.random() < _OF_CONTROLLER:
            node = CONTROLLER_ID
        faults.append(Fault(at_ms, kind, node, peer, for_ms, random.random()))
    return faults


class Nemesis:
    """Injects faults into a simulated cluster. `injected` are the faults that really happened. `synced` means that every acknowledged
    record is on disk (flush.messages=1), so that any node may lose power at any time."""

    def __init__(self, loop: SimLoop, cluster: SimCluster, *, synced: bool) -> None:
        self.loop, self.cluster, self.synced = loop, cluster, synced
        self.injected: list[Fault] = []
        self.over = False
        self.on_client: Callable[[Fault], Callable[[], None] | None] = lambda fault: None
        """A function that begins a fault of a simulated client. It returns the function that ends the fault, or None if the fault is not
        possible now. The simulation sets it, because the simulation has the clients."""
        self._active_faults = 0
        self._not_recovered: set[int] = set()
        """Ids of nodes that have lost power and not recovered, but are still ISR members or eligible leaders. While there is any, no other
        fault begins."""
        self._actions: dict[str, Callable[[SimNode, Fault], Callable[[], None] | None]] = {
            "kill": self._kill,
            "stop": self._stop,
            "pause": self._pause,
            POWER: self._power,
            "dies amid a write": self._die_writing,
            "one way": self._one_way,
            "no controller": self._no_controller,
            "isolated": self._isolate,
            "cut": self._cut,
            "loses": self._lose,
            "slow": self._slow,
            STALLS: self._stall,
            "skew": self._skew,
            FULL: self._fill,
            CLIENT_DIES: self._client,
            ZOMBIE: self._client,
        }

    def schedule(self, faults: list[Fault]) -> None:
        """Schedule the injection of each fault at its time."""
        for fault in faults:
            self.loop.call_in_us(fault.at_ms * 1000 - self.loop.now_us, self._begin, fault)

    def heal(self) -> None:
        """End all faults, and begin no further ones: start stopped nodes, resume paused ones, and restore links and disks."""
        self.over = True
        self.cluster.network.heal()
        for node in self.cluster.all_nodes.values():
            node.sync_us, node.on_disk_call, node.files.room = SYNC_US, _nothing, None
            if node.process is not None:
                self.loop.resume(node.process)
            node.start()

    def _begin(self, fault: Fault) -> None:
        self._forget_recovered()
        if self.over or self._not_recovered:
            return
        end = self._actions[fault.kind](self.cluster.all_nodes[fault.node], fault)
        if end is not None:
            self.injected.append(fault)
            self._active_faults += 1
            self.loop.call_in_us(fault.for_ms * 1000, self._end, end)

    def _end(self, end: Callable[[], None]) -> None:
        self._active_faults -= 1
        if not self.over:
            end()

    # --- processes and disks ---------------------------------------------------------------------------------------------------------

    def _kill(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        node.kill()
        return node.start

    def _stop(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        if not node.serves:
            return None
        node.stop()
        return node.start

    def _pause(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        process = node.process
        if process is None or not node.is_up:
            return None
        self.loop.pause(process)
        return lambda: self.loop.resume(process)

    def _power(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        if not self.synced and node is not self.cluster.controller:  # the controller publishes only what it has synced
            if self._active_faults or not self._all_in_sync():
                return None
            self._not_recovered.add(node.node_id)
        elif self.synced and fault.draw < _BLACKOUT:
            return self._blackout()
        node.kill(power=True)
        return node.start

    def _blackout(self) -> Callable[[], None]:
        nodes = list(self.cluster.nodes.values())
        for node in nodes:
            node.kill(power=True)

        def end() -> None:
            for node in nodes:
                node.start()

        return end

    def _die_writing(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        left = int(fault.draw * 30)

        def on_disk_call(operation: str, path: Path) -> None:
            nonlocal left
            left -= operation != "read"
            if left < 0:
                node.on_disk_call = _nothing
                node.exit("")

        def end() -> None:
            node.on_disk_call = _nothing
            node.start()

        node.on_disk_call = on_disk_call
        return end

    def _stall(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        node.sync_us = STALLED_US

        def end() -> None:
            node.sync_us = SYNC_US

        return end

    def _client(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        return self.on_client(fault)

    def _fill(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        node.files.room = int(fault.draw * 20_000)

        def end() -> None:
            node.files.room = None

        return end

    def _skew(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        node.clock.skew_ms += round((fault.draw - 0.5) * 120_000)
        return _nothing_more

    # --- links -----------------------------------------------------------------------------------------------------------------------

    def _one_way(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        way = (node.host, self._other(fault))
        return self._blocked(way if fault.for_ms % 2 else way[::-1])

    def _no_controller(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        return self._blocked((node.host, CONTROLLER_HOST), (CONTROLLER_HOST, node.host))

    def _isolate(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        others = [each.host for each in self.cluster.all_nodes.values() if each is not node]
        return self._blocked(*((node.host, other) for other in others), *((other, node.host) for other in others))

    def _blocked(self, *ways: tuple[str, str]) -> Callable[[], None]:
        network = self.cluster.network
        for way in ways:
            network.block(*way)

        def end() -> None:
            for way in ways:
                network.unblock(*way)

        return end

    def _cut(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        self.cluster.network.cut(node.host, self._other(fault))
        return _nothing_more

    def _lose(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        links = [self.cluster.network.link(*way) for way in self._both_ways(node, fault)]
        for link in links:
            link.loss = LOSS

        def end() -> None:
            for link in links:
                link.loss = 0.0

        return end

    def _slow(self, node: SimNode, fault: Fault) -> Callable[[], None] | None:
        links = [self.cluster.network.link(*way) for way in self._both_ways(node, fault)]
        usual = links[0].latency_us
        for link in links:
            link.latency_us = SLOW_US

        def end() -> None:
            for link in links:
                link.latency_us = usual

        return end

    def _both_ways(self, node: SimNode, fault: Fault) -> list[tuple[str, str]]:
        other = self._other(fault)
        return [(node.host, other), (other, node.host)]

    def _other(self, fault: Fault) -> str:
        """Return the host at the other end of the link that a fault breaks: another broker, the controller, or a client."""
        controller = [CONTROLLER_HOST] * (fault.node != CONTROLLER_ID)
        others = [self.cluster.nodes[fault.peer].host, *controller, *self.cluster.client_hosts]
        return others[int(fault.draw * 1000) % len(others)]

    # --- which faults are allowed ------------------------------------------------------------------------------------------------------

    def _all_in_sync(self) -> bool:
        topics = self.cluster.image.topics.values()
        return all(len(each.isr) == len(each.replicas) for topic in topics for each in topic.partitions.values())

    def _forget_recovered(self) -> None:
        """Remove recovered nodes from `_not_recovered`, the nodes that have lost power and with it unsynced records. A node has recovered
        when it is unfenced again, or is in no ISR and among no eligible leader replicas any more."""
        image = self.cluster.image
        for node in sorted(self._not_recovered):
            all_of_them = (each for topic in image.topics.values() for each in topic.partitions.values())
            in_sync = any(node in {*each.isr, *each.elr, *each.last_known_elr} for each in all_of_them)
            if not in_sync or (self.cluster.nodes[node].serves and not image.brokers[node].fenced):
                self._not_recovered.discard(node)


def _nothing(operation: str, path: Path) -> None:
    pass


def _nothing_more() -> None:
    pass

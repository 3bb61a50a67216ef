"""Faults of a cluster's nodes, and the end of each fault.

A function that injects a fault also ends it: before it returns, it restarts the process, opens the link or frees the disk. The cluster must
repair everything else, such as leaders and replicas, by itself.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum

from client_compat.kafka.cluster import FIRST_CONTROLLER, Cluster, Kind, Node
from client_compat.support.brokers import HOST, BrokerFailed
from client_compat.support.links import Way
from ottla.protocol.client import Client
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest

DOWN_S = (0.0, 4.5)
"""The shortest and the longest time, in seconds, for which a node is down. A broker's session may or may not expire in this time."""
PAUSED_S = (0.5, 6.0)
CUT_OFF_S = (0.3, 1.5)
"""The shortest and the longest time, in seconds, for which followers are cut off from their leader. It is shorter than a broker's session,
so no follower has left the ISR when the leader is killed."""
CUT_S = (0.5, 7.0)
FULL_TIMEOUT_S = 60.0
POLL_S = 0.1
DECIDE_TIMEOUT_S = 1.0
TOPIC_RESOURCE, SET = 2, 0
RETENTION_MS = 7 * 86_400_000


class Fault(StrEnum):
    """The kinds of faults that can be injected into a node. The values are their names on the command line."""

    RESTART = "restart"
    KILL = "kill"
    STOP = "stop"
    CUT_OFF = "cut-off"
    LINK = "cut-link"
    DISK = "full-disk"
    TAKEOVER = "takeover"


def restart(cluster: Cluster, node: Node, rng: random.Random) -> str:
    """Stop the node cleanly, and start it again. Return an empty text, because there is no random choice to describe."""
    node.stop()
    node.start()
    return ""


def kill(cluster: Cluster, node: Node, rng: random.Random) -> str:
    """Kill the node with SIGKILL, and start it again after a random time, which may be shorter than its session timeout. Return for how
    long it was down, as text."""
    node.process.kill()
    return _start_later(node, rng)


def pause_process(cluster: Cluster, node: Node, rng: random.Random) -> str:
    """Pause the node with SIGSTOP, so that its connections stay open and it resumes with its old state; return for how long, as text."""
    paused = rng.uniform(*PAUSED_S)
    node.process.pause()
    time.sleep(paused)
    node.process.resume()
    return f"for {paused:.1f} s"


def cut_off(cluster: Cluster, broker: Node, rng: random.Random) -> str:
    """Pause all other brokers, so that `broker` appends records that its followers do not get; then kill `broker`, resume the others, and
    start `broker` again. Return for how long it was down, as text."""
    others = [other for other in cluster.brokers if other is not broker]
    for other in others:
        other.process.pause()
    time.sleep(rng.uniform(*CUT_OFF_S))
    broker.process.kill()
    for other in others:
        other.process.resume()
    return _start_later(broker, rng)


def cut_link(cluster: Cluster, node: Node, rng: random.Random) -> str:
    """Block network traffic between `node` and other nodes for a random time. The other nodes and the directions are random; clients still
    reach the node. Return which links were cut and for how long, as text."""
    assert cluster.links is not None, "the cluster was made with links that can be cut"
    ways, description = ways_to_cut(node, cluster.nodes, rng)
    cut = rng.uniform(*CUT_S)
    with cluster.links.cut(ways):
        time.sleep(cut)
    return f"{description}, for {cut:.1f} s"


def ways_to_cut(node: Node, nodes: Sequence[Node], rng: random.Random) -> tuple[set[Way], str]:
    """Choose at random the links between `node` and one other node, all brokers, or all nodes, in one direction or both. Return the chosen
    links as pairs (from node, to node), and their description."""
    others = [other for other in nodes if other is not node]
    chosen = rng.choice([[rng.choice(others)], [other for other in others if other.node_id < FIRST_CONTROLLER], others])
    to, back = rng.choice([(True, True), (True, False), (False, True)])
    ways = {(node.node_id, other.node_id) for other in chosen if to} | {(other.node_id, node.node_id) for other in chosen if back}
    word = "from and to" if to and back else "to" if to else "from"
    return ways, f"{word} {', '.join(str(other.node_id) for other in chosen)}"


def fill_disk(cluster: Cluster, node: Node, rng: random.Random) -> str:
    """Fill the node's disk. The node ends by itself, because a cluster broker stops when a write fails; it is started again when the disk
    has free space. Return for how long it was down, as text."""
    assert node.disk is not None, "the node has a disk of its own"
    node.disk.fill()
    try:
        end = time.monotonic() + FULL_TIMEOUT_S
        while node.process.alive:
            if time.monotonic() > end:
                raise BrokerFailed(f"{node.process.name} did not end within {FULL_TIMEOUT_S:.0f} s of its disk being full")
            if node in cluster.quorum:
                force_controller_write(cluster)
            time.sleep(POLL_S)
    finally:
        node.disk.free()
    return _start_later(node, rng)


def force_controller_write(cluster: Cluster) -> None:
    """Change a setting of each topic, so that the controller has to write to its log; errors are ignored."""
    config = [AlterableConfig("retention.ms", SET, str(RETENTION_MS + time.monotonic_ns() % RETENTION_MS))]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC_RESOURCE, topic, config) for topic in cluster.topics])
    with (
        suppress(OSError, ProtocolError),
        Client(HOST, cluster.brokers[0].process.port, client_id="faults", timeout_s=DECIDE_TIMEOUT_S) as client,
    ):
        client.call(request)


def take_over(cluster: Cluster, broker: Node, rng: random.Random) -> str:
    """Stop the broker, and start the other program (Ottla for Apache Kafka, or the reverse) on the broker's directory and with its id.
    Return the new program's name as text."""
    broker.stop()
    broker.kind = Kind.OTTLA if broker.kind == Kind.KAFKA else Kind.KAFKA
    broker.start()
    return f"now {broker.kind}"


def _start_later(node: Node, rng: random.Random) -> str:
    down = rng.uniform(*DOWN_S)
    time.sleep(down)
    node.start()
    return f"for {down:.1f} s"


INJECTORS: Mapping[Fault, Callable[[Cluster, Node, random.Random], str]] = {
    Fault.RESTART: restart,
    Fault.KILL: kill,
    Fault.STOP: pause_process,
    Fault.CUT_OFF: cut_off,
    Fault.LINK: cut_link,
    Fault.DISK: fill_disk,
    Fault.TAKEOVER: take_over,
}
"""The function that injects each kind of fault into a node. It returns when the fault has ended, with a description of its random choices.
"""
BASIC_FAULTS = (Fault.RESTART, Fault.KILL, Fault.STOP, Fault.CUT_OFF)
"""Faults that are possible in any cluster: they need no cuttable network links, no small disks, and only one kind of broker."""
CHAOS_FAULTS = (*BASIC_FAULTS, Fault.LINK, Fault.DISK)
CONCURRENT_FAULTS = frozenset({Fault.RESTART, Fault.KILL, Fault.STOP, Fault.LINK, Fault.DISK})
"""Faults that may happen to two nodes at once."""
BROKER_FAULTS = frozenset({Fault.CUT_OFF, Fault.TAKEOVER})
"""Faults that do not apply to controllers."""

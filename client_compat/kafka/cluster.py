"""A KRaft cluster on loopback, each node a process. Controllers and brokers run Apache Kafka or Ottla; brokers of both kinds may be mixed.

Rules:
- A broker keeps its id, port and directory, whichever program (Apache Kafka or Ottla) runs on it.
- Every process is ended by its own process id.
- Timeouts are short, so that the cluster notices a paused broker within seconds.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import typer

from client_compat.kafka.jars import default_version, jars
from client_compat.kafka.reference import FORMAT_TIMEOUT_S, JVM_PROPERTIES, NEW_CLUSTER_ID, SETTINGS, SMALL_JVM, java_command
from client_compat.support.admin import create_topic, delete_topic
from client_compat.support.brokers import HOST, BrokerFailed, BrokerProcess
from client_compat.support.links import Links
from client_compat.support.ports import free_port
from client_compat.support.small_disk import SmallDisk
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse

FIRST_BROKER, FIRST_CONTROLLER = 1, 101
START_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
"""Time limit for a clean stop of a node, in seconds: a broker first hands its leaderships over."""
POLL_S = 0.1
FETCH_WAITS_S = 0.7
"""How long, in seconds, a broker holds a Fetch that the test code itself sends. It is longer than replica.fetch.wait.max.ms, so that a
paused follower's last Fetch ends first."""
OTTLA = (sys.executable, "-m", "ottla")
METADATA_VERSION = 12
INTER_BROKER_LISTENER = "REPLICATION"
"""The name of the brokers' separate listener for each other, with which links between brokers can be cut while clients still reach the
brokers."""
CLEAN_EXITS = (0, 143)
"""Exit codes of a node after SIGTERM; a JVM returns 143."""

COMMON: Mapping[str, str] = {
    **SETTINGS,
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "leader.imbalance.check.interval.seconds": "2",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "auto.create.topics.enable": "false",
}
"""Common settings of every node. With them, the controller elects a restarted broker as preferred leader within about two seconds."""


class Kind(StrEnum):
    """The program that a node runs: Apache Kafka or Ottla."""

    KAFKA = "kafka"
    OTTLA = "ottla"


ALL_KAFKA = (Kind.KAFKA,) * 3
ALL_OTTLA = (Kind.OTTLA,) * 3
MIXED = (Kind.KAFKA, Kind.OTTLA, Kind.OTTLA)


def kinds_of(text: str) -> list[Kind]:
    """Parse a list such as `kafka,ottla,ottla`. Raises `typer.BadParameter` for an unknown kind, or fewer than three brokers."""
    words = [word.strip() for word in text.split(",")]
    if unknown := set(words).difference(Kind):
        raise typer.BadParameter(f"a broker is {' or '.join(Kind)}, not {', '.join(sorted(unknown))}", param_hint="--brokers")
    if len(words) < 3:
        raise typer.BadParameter("three brokers at least: every partition has three replicas", param_hint="--brokers")
    return [Kind(word) for word in words]


@dataclass(slots=True)
class Node:
    """A controller or a broker. Methods such as `start` and `stop` act on its process."""

    node_id: int
    directory: Path
    settings: Mapping[str, str]
    version: str
    process: BrokerProcess
    kind: Kind = Kind.KAFKA
    jvm: Sequence[str] = SMALL_JVM
    ottla: Sequence[str] = OTTLA
    options: Sequence[str] = ()
    disk: SmallDisk | None = None
    """The small separate disk that holds the node's directory and that a test can fill; None without one."""

    @property
    def properties(self) -> Path:
        return self.directory.with_name(f"{self.directory.name}.properties")

    def write_properties(self) -> None:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in self.settings.items()))

    @property
    def command(self) -> list[str]:
        """The command that starts the node on its directory. Raises `KafkaMissing` if Apache Kafka is required and not available."""
        if self.kind == Kind.OTTLA:
            return [*self.ottla, "serve", "--config", str(self.properties), *self.options]
        return java_command(self.version, "kafka.Kafka", str(self.properties), properties=JVM_PROPERTIES, jvm=self.jvm)

    def format(self, options: Sequence[str] = ()) -> None:
        """Format the node's directory with `kafka-storage format`, or with `ottla format` and the same options. Raises `BrokerFailed` with
        the tool's output if the tool fails."""
        self.write_properties()
        tool = self.ottla if self.kind == Kind.OTTLA else java_command(self.version, "kafka.tools.StorageTool")
        command = [*tool, "format", "-t", NEW_CLUSTER_ID, "-c", str(self.properties), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False)
        if done.returncode:
            raise BrokerFailed(f"the directory of node {self.node_id} was not formatted ({done.returncode}):\n{done.stdout}{done.stderr}")

    def spawn(self) -> None:
        """Start the node's process without waiting for it."""
        self.process.argv, self.process.name = self.command, f"{self.kind} {self.node_id}"
        self.process.spawn()

    def start(self) -> float:
        """Start the process; return the seconds until it listened. Raises `BrokerFailed` if the process ends or does not listen in time."""
        self.spawn()
        return self.process.wait_listening(START_TIMEOUT_S)

    def stop(self) -> None:
        """Send SIGTERM, and wait. Raises `BrokerFailed` if the process does not exit cleanly in time."""
        if (code := self.process.stop(STOP_TIMEOUT_S)) not in CLEAN_EXITS:
            raise BrokerFailed(f"{self.process.name} did not stop cleanly: exit code {code}\n{self.process.output_tail()}")


@dataclass(slots=True)
class Cluster:
    """Brokers of `kinds`, with ids from 1, under a quorum of `controllers` Kafka controllers of `controller_version`, or under one Ottla
    controller. `settings` override `COMMON` on all nodes.

    With `combined`, broker 1 is also the only controller. With `inter_broker_listener`, brokers have a separate listener for each other,
    INTER_BROKER_LISTENER; with `can_be_cut` they reach each other (but not their clients) through `links`. `users` are the SCRAM users of
    the new cluster, in the format of `--add-scram`. `jvm` are the JVM options of its Kafka brokers (not of its controllers); `ottla` is the
    command of its other nodes, for instance of another checkout, and `options` are more arguments of their `ottla serve`.
    """

    directory: Path
    kinds: Sequence[Kind] = ALL_KAFKA
    controllers: int = 1
    version: str = field(default_factory=default_version)
    controller_version: str = field(default_factory=default_version)
    settings: Mapping[str, str] = field(default_factory=dict)
    jvm: Sequence[str] = SMALL_JVM
    ottla: Sequence[str] = OTTLA
    controller_kind: Kind = Kind.KAFKA
    options: Sequence[str] = ()
    combined: bool = False
    inter_broker_listener: bool = False
    can_be_cut: bool = False
    users: Sequence[str] = ()
    links: Links | None = field(init=False)
    quorum: list[Node] = field(init=False)
    brokers: list[Node] = field(init=False)
    _voters: str = field(init=False)
    topics: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.links = Links(self._processes) if self.can_be_cut else None
        ids = [FIRST_BROKER] if self.combined else range(FIRST_CONTROLLER, FIRST_CONTROLLER + self.controllers)
        ports = [free_port() for _ in ids]
        dialled = [self._dialled(node_id, port) for node_id, port in zip(ids, ports, strict=True)]
        self._voters = ",".join(f"{node_id}@{HOST}:{port}:{_directory_id(node_id)}" for node_id, port in zip(ids, dialled, strict=True))
        found = {"controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{port}" for port in dialled)}
        self.quorum = [
            self._node("controller", node_id, port, self.controller_version, {**found, **_listeners({"CONTROLLER": (port, at)})})
            for node_id, port, at in zip(ids, ports, dialled, strict=True)
        ]
        for controller in self.quorum:
            controller.kind, controller.ottla = self.controller_kind, self.ottla
        self.brokers = [self._broker(FIRST_BROKER + at, found) for at in range(len(self.kinds))]
        if self.combined:
            self.quorum = [_both(self.brokers[0], self.quorum[0])]
        for broker, kind in zip(self.brokers, self.kinds, strict=True):
            broker.kind, broker.jvm, broker.ottla, broker.options = kind, self.jvm, self.ottla, self.options

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers: all brokers, so that any one may be down."""
        return ",".join(broker.process.bootstrap for broker in self.brokers)

    @property
    def nodes(self) -> list[Node]:
        return [*self.quorum, *self.brokers[len(self.quorum) if self.combined else 0 :]]

    def broker(self, node_id: int) -> Node:
        return self.brokers[node_id - FIRST_BROKER]

    def start(self) -> None:
        """Format every directory, start all nodes, and wait until all brokers know each other. Raises `BrokerFailed` if a node fails or
        this takes too long, `KafkaMissing` if Apache Kafka is required and not available."""
        self.format()
        self.launch()

    def format(self) -> None:
        """Format every directory with the nodes' own tools. Raises `BrokerFailed` if a tool fails, `KafkaMissing` if Apache Kafka is
        required and not available."""
        for version in {node.version for node in self.nodes if node.kind == Kind.KAFKA}:
            jars(version)
        alone = self.combined or self.controller_kind == Kind.OTTLA
        voters = ["--standalone"] if alone else ["--initial-controllers", self._voters]
        voters += [f"--add-scram={user}" for user in self.users]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda node: node.format(voters if node in self.quorum else []), self.nodes))

    def launch(self) -> None:
        """Start all nodes at the same time, and wait until all brokers know each other. Raises `BrokerFailed` if a node fails or this takes
        too long."""
        for node in self.nodes:
            node.spawn()
        for node in self.nodes:
            node.process.wait_listening(START_TIMEOUT_S)
        self.settle()

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create a topic with three replicas, and wait until every broker knows it. Raises KafkaException if the request fails,
        `BrokerFailed` if a broker does not know the topic in time."""
        create_topic(self.bootstrap, name, partitions, config, replicas=3)
        self.topics.add(name)
        self.settle()

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KafkaException if the request fails."""
        self.topics.discard(name)
        delete_topic(self.bootstrap, name)

    def settle(self) -> None:
        """Wait until every broker knows all brokers and topics, and each partition is led by its preferred replica with a full ISR. Raises
        `BrokerFailed` if this takes too long or a node dies."""
        end = time.monotonic() + SETTLE_TIMEOUT_S
        while found := next(self._unsettled(), None):
            if time.monotonic() > end:
                raise BrokerFailed(f"the cluster did not settle within {SETTLE_TIMEOUT_S:.0f} s: {found}; see {self.directory}")
            for node in self.nodes:
                node.process.check_alive()
            time.sleep(POLL_S)

    def _unsettled(self) -> Iterator[str]:
        for broker in self.brokers:
            try:
                seen = self.seen_by(broker)
            except (OSError, ConnectionError) as error:
                yield f"{broker.process.name} does not answer: {error}"
                return
            if len(seen.brokers) < len(self.brokers):
                yield f"{broker.process.name} sees brokers {sorted(one.node_id for one in seen.brokers)}"
            if missing := self.topics.difference(topic.name or "" for topic in seen.topics):
                yield f"{broker.process.name} does not know {sorted(missing)}"
            for topic in seen.topics:
                for one in topic.partitions:
                    if one.leader_id != one.replica_nodes[0] or set(one.isr_nodes) != set(one.replica_nodes):
                        where = f"{topic.name}-{one.partition_index}"
                        yield f"{broker.process.name} sees {where} led by {one.leader_id}, {one.isr_nodes} of {one.replica_nodes} in sync"

    def until(self, node_id: int, holds: Callable[[MetadataResponse], bool], what: str) -> None:
        """Wait until `holds` is true of the Metadata response of the broker `node_id`. Raises `BrokerFailed` with the description `what` if
        that takes too long."""
        end = time.monotonic() + SETTLE_TIMEOUT_S
        while not holds(self.seen_by(self.broker(node_id))):
            if time.monotonic() > end:
                raise BrokerFailed(f"within {SETTLE_TIMEOUT_S:.0f} s it was not seen that {what}; see {self.directory}")
            time.sleep(POLL_S)

    def seen_by(self, broker: Node) -> MetadataResponse:
        """Return the broker's Metadata response for all topics."""
        return seen_at(broker.process.port)

    def stop(self) -> None:
        """Stop the brokers cleanly, then the controllers. Raises `BrokerFailed` if a node does not exit cleanly in time."""
        for node in reversed(self.nodes):
            if node.process.alive:
                node.stop()

    def _broker(self, node_id: int, found: Mapping[str, str]) -> Node:
        port = free_port()
        listeners, own = {"PLAINTEXT": (port, port)}, dict[str, str]()
        if self.links is not None or self.inter_broker_listener:
            inter_broker_port = free_port()
            listeners[INTER_BROKER_LISTENER] = inter_broker_port, self._dialled(node_id, inter_broker_port)
            own["listener.security.protocol.map"] = f"{SETTINGS['listener.security.protocol.map']},{INTER_BROKER_LISTENER}:PLAINTEXT"
        own |= {**_listeners(listeners), "inter.broker.listener.name": list(listeners)[-1], "broker.rack": f"rack-{node_id}"}
        return self._node("broker", node_id, port, self.version, {**found, **own})

    def _node(self, word: str, node_id: int, port: int, version: str, settings: Mapping[str, str]) -> Node:
        directory = self.directory / f"{word}-{node_id}"
        own = {"process.roles": word, "node.id": str(node_id), "log.dirs": str(directory)}
        process = BrokerProcess([], port, directory.with_name(f"{directory.name}.log"))
        return Node(node_id, directory, {**COMMON, **settings, **own, **self.settings}, version, process)

    def _dialled(self, node_id: int, port: int) -> int:
        """Return the port at which other nodes connect to the node that listens at `port`: that port itself, or one of `links`, whose
        connections can be cut."""
        return port if self.links is None else self.links.to(node_id, port)

    def _processes(self) -> Mapping[int, int]:
        return {node.node_id: node.process.pid for node in self.nodes if node.process.alive}


def _both(broker: Node, controller: Node) -> Node:
    """Combine the settings of a broker and a controller into one node with both roles, and return it."""
    together = {name: f"{broker.settings[name]},{controller.settings[name]}" for name in ("listeners", "advertised.listeners")}
    broker.settings = {**broker.settings, **together, "process.roles": "broker,controller"}
    return broker


def _listeners(ports: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Return the listener settings of a broker; `ports` has the port and the advertised port of each listener, by name."""
    own, advertised = (",".join(f"{name}://{HOST}:{at[which]}" for name, at in ports.items()) for which in (0, 1))
    return {"listeners": own, "advertised.listeners": advertised}


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """Start the cluster, and stop it at the end of the context; no process of the cluster is left then."""
    with cluster.links or nullcontext():
        try:
            cluster.start()
            yield cluster
        finally:
            end(node.process for node in (*cluster.brokers, *cluster.quorum))


def seen_at(port: int) -> MetadataResponse:
    """Return a broker's Metadata response for all brokers and topics."""
    with Client(HOST, port, client_id="cluster") as client:
        answer: MetadataResponse = client.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), METADATA_VERSION)
    return answer


def end(processes: Iterable[BrokerProcess]) -> None:
    """Kill the processes that still run or are paused."""
    for process in processes:
        if process.alive:
            process.kill()


def _directory_id(node_id: int) -> str:
    """Return a Kafka uuid for a controller's directory, always the same for a node id. Kafka's `--initial-controllers` option requires
    it."""
    return base64.urlsafe_b64encode(b"ottla-cluster" + node_id.to_bytes(3)).decode().rstrip("=")

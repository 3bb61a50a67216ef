"""Apache Kafka as one node with its own directory: formatted, started, stopped or killed by its process id. Releases before 3.3, in which
KRaft was not ready for production, run with a ZooKeeper of their own.

Rules:
- Ports are chosen before the start, and stay the same over restarts.
- A formatted directory is used as it is.
- The heap is small, because the machine is shared with tests.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from client_compat.kafka.jars import CACHE, default_version, jars, java
from client_compat.support.brokers import HOST, BrokerFailed, BrokerProcess
from client_compat.support.ports import free_port

NODE_ID = 1
SMALL_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""JVM options for a quick start and little memory. The benchmarks do not use them, but the options of Kafka's own start script."""
FORMAT_TIMEOUT_S = 60.0
START_TIMEOUT_S = 60.0
NEW_CLUSTER_ID = "b3R0bGEtcmVmZXJlbmNlMA"
"""The cluster id of new reference nodes: 22 characters of base64url."""

SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "2097152",
}

QUORUM_FOUND_SINCE = (3, 9)
"""The first release in which the controllers of a quorum can change (KIP-853), and in which nodes find them by
`controller.quorum.bootstrap.servers`."""
KRAFT_SINCE = (3, 3)
"""The first release whose KRaft mode is for production (KIP-833)."""
OF_KRAFT = ("process.roles", "controller.listener.names", "listener.security.protocol.map")

JVM_PROPERTIES: Mapping[str, str] = {
    "org.slf4j.simpleLogger.defaultLogLevel": "warn",
    "org.slf4j.simpleLogger.showDateTime": "true",
    "org.slf4j.simpleLogger.log.kafka.coordinator.transaction.TransactionMarkerChannelManager": "info",
}
"""JVM system properties of the broker, for its logger slf4j-simple: log warnings, and the messages about transaction markers that the
transaction coordinator gives up, which `audit_corpus.truth` reads."""


def release_of(version: str) -> tuple[int, int]:
    """Return the major and minor number of a Kafka version: (3, 9) for `3.9.2`."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def class_archive(version: str, main_class: str) -> Path:
    """Return the path of the class data archive with which the JVM starts this main class faster; the file may not exist (see
    `class_archives`)."""
    return CACHE / f"{version}-{'node' if main_class == 'kafka.Kafka' else 'tool'}.jsa"


def java_command(
    version: str,
    main_class: str,
    *arguments: str,
    properties: Mapping[str, str] | None = None,
    jvm: Sequence[str] = SMALL_JVM,
    classes: Path | None = None,
) -> list[str]:
    """Return the command that runs one of Kafka's main classes with this `version` of Kafka's jars; the directory `classes` is added to the
    class path. Raises `KafkaMissing` if the jars or Java are missing."""
    set_ = [f"-D{name}={value}" for name, value in (properties or {}).items()]
    places = [f"{jars(version)}/*", *([] if classes is None else [str(classes)])]
    archive = class_archive(version, main_class)
    if archive.exists() and "-Xshare:auto" in jvm:
        jvm = [*jvm, f"-XX:SharedArchiveFile={archive}", "-Xlog:disable", "-Xlog:all=warning:stderr", "-Xlog:cds*=off:stderr"]
    return [java(), *jvm, *set_, "-cp", os.pathsep.join(places), main_class, *arguments]


@dataclass(slots=True)
class ReferenceBroker:
    """A node of Apache Kafka that uses `data_dir`. `settings` override `SETTINGS`. `broker` is its process. Use it as a context manager.

    With `static_voters` the quorum is in the node's settings and not in its metadata log, so that the node can start on a directory that
    Ottla wrote.
    """

    data_dir: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    version: str = field(default_factory=default_version)
    node_id: int = NODE_ID
    static_voters: bool = False
    jvm: Sequence[str] = SMALL_JVM
    classes: Path | None = None
    """Directory with the project's own Java classes that the broker's settings name, such as a metric reporter."""
    broker: BrokerProcess = field(init=False)
    controller_port: int = field(init=False)
    _zookeeper: BrokerProcess | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.static_voters = self.static_voters or release_of(self.version) < QUORUM_FOUND_SINCE
        port, self.controller_port = free_port(), free_port()
        output = self.data_dir.with_name(f"{self.data_dir.name}-kafka.log")
        argv = java_command(
            self.version, "kafka.Kafka", str(self._properties_file), properties=JVM_PROPERTIES, jvm=self.jvm, classes=self.classes
        )
        self.broker = BrokerProcess(argv, port, output, name=f"Apache Kafka {self.version}")
        if release_of(self.version) < KRAFT_SINCE:
            self._zookeeper = zookeeper(self.version, self.data_dir.with_name(f"{self.data_dir.name}-zookeeper"))

    @property
    def port(self) -> int:
        return self.broker.port

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def _properties_file(self) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.properties")

    def format(self, cluster_id: str = NEW_CLUSTER_ID, options: Sequence[str] = ()) -> None:
        """Run `kafka-storage format` on the directory, which leaves a formatted one unchanged. A node with ZooKeeper needs no formatting.
        Raises `BrokerFailed` with the tool's output if the tool fails."""
        self._write_properties()
        if self._zookeeper is not None:
            return
        arguments = [
            "format",
            "-t",
            cluster_id,
            "-c",
            str(self._properties_file),
            "--ignore-formatted",
            *([] if self.static_voters else ["--standalone"]),
            *options,
        ]
        command = java_command(self.version, "kafka.tools.StorageTool", *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise BrokerFailed(f"kafka-storage format ended with {done.returncode}:\n{done.stdout}{done.stderr}")

    def start(self) -> ReferenceBroker:
        """Format the directory if needed, start the broker (before 3.3 its ZooKeeper first), and wait until it listens. Raises
        `BrokerFailed` if a step fails."""
        if not (self.data_dir / "meta.properties").exists():
            self.format()
        self._write_properties()
        try:
            if self._zookeeper is not None and not self._zookeeper.alive:
                self._zookeeper.start(START_TIMEOUT_S)
            self.broker.start(START_TIMEOUT_S)
        except BaseException:  # also KeyboardInterrupt, and SystemExit of a signal
            self.end()
            raise
        return self

    def end(self) -> None:
        """Stop the broker, unless it has ended, and then its ZooKeeper."""
        try:
            if self.broker.alive:
                self.broker.stop()
        finally:
            self._stop_zookeeper()

    def stop(self) -> None:
        """Send SIGTERM to the broker, and wait for its clean shutdown."""
        self.broker.stop()
        self._stop_zookeeper()

    def kill(self) -> None:
        """Send SIGKILL to the broker, and wait for its end."""
        self.broker.kill()
        self._stop_zookeeper()

    def _stop_zookeeper(self) -> None:
        if self._zookeeper is not None and self._zookeeper.alive:
            self._zookeeper.stop()

    def _write_properties(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        client_listener, shared = f"PLAINTEXT://{HOST}:{self.port}", SETTINGS
        both = f"{client_listener},CONTROLLER://{HOST}:{self.controller_port}"
        own = {
            "node.id": str(self.node_id),
            "log.dirs": str(self.data_dir),
            "listeners": both,
            "advertised.listeners": both if release_of(self.version) >= QUORUM_FOUND_SINCE else client_listener,
        }
        if self._zookeeper is not None:
            shared = {name: value for name, value in SETTINGS.items() if name not in OF_KRAFT}
            own |= {"listeners": client_listener, "broker.id": own.pop("node.id"), "zookeeper.connect": self._zookeeper.bootstrap}
        elif self.static_voters:
            own["controller.quorum.voters"] = f"{self.node_id}@{HOST}:{self.controller_port}"
        else:
            own["controller.quorum.bootstrap.servers"] = f"{HOST}:{self.controller_port}"
        lines = [f"{name}={value}\n" for name, value in {**shared, **own, **self.settings}.items()]
        self._properties_file.write_text("".join(lines))

    def __enter__(self) -> ReferenceBroker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.end()


def zookeeper(version: str, data_dir: Path) -> BrokerProcess:
    """Return the ZooKeeper that comes with a version of Kafka before 4.0, not started. Raises `KafkaMissing` if the jars of this version
    are not available."""
    port = free_port()
    properties = {"org.slf4j.simpleLogger.defaultLogLevel": "warn", "zookeeper.admin.enableServer": "false"}
    argv = java_command(version, "org.apache.zookeeper.server.ZooKeeperServerMain", str(port), str(data_dir), properties=properties)
    return BrokerProcess(argv, port, data_dir.with_name(f"{data_dir.name}.log"), name=f"ZooKeeper of Kafka {version}")

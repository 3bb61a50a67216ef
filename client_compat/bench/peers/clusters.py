"""Three brokers of one kind with an Apache Kafka controller, started, measured and stopped as if they were one.

Rule: all brokers have Kafka's default settings (module `shipped`), and Kafka's brokers also the JVM options of its start script. Clusters
of both kinds have an Apache Kafka controller, which is not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from client_compat.bench.peers.shipped import CLUSTER_SETTINGS, KAFKA_JVM
from client_compat.kafka.cluster import OTTLA, START_TIMEOUT_S, STOP_TIMEOUT_S, Cluster, Kind, end
from client_compat.support.brokers import BrokerProcess, Usage

BROKERS = 3


@dataclass(slots=True, kw_only=True)
class ClusterProcesses(BrokerProcess):
    """A cluster of three brokers with the interface of one broker process: `port` is the first broker's port, `usage` the sum of all
    brokers' CPU time and memory."""

    cluster: Cluster

    @classmethod
    def over(cls, directory: Path, kind: Kind, ottla: Sequence[str] = OTTLA) -> ClusterProcesses:
        """Return a cluster of three brokers of this kind, not started."""
        data = directory / "data"
        cluster = Cluster(data, (kind,) * BROKERS, settings=CLUSTER_SETTINGS, jvm=KAFKA_JVM, ottla=ottla)
        return cls([], cluster.brokers[0].process.port, data, name=f"{BROKERS} {kind} brokers", cluster=cluster)

    @property
    def alive(self) -> bool:
        return any(node.process.alive for node in self.cluster.nodes)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> float:
        """Start all nodes and wait until all brokers know each other. `timeout_s` is ignored, because the cluster has its own timeout, and
        the returned duration is always 0.

        Raises `BrokerFailed` if a node does not start, or `KafkaMissing` if Apache Kafka is not available.
        """
        self.cluster.start()
        return 0.0

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """End all nodes without a clean shutdown, because their data is not needed again."""
        end(node.process for node in self.cluster.nodes)
        return 0

    def usage(self) -> Usage:
        used = [broker.process.usage() for broker in self.cluster.brokers]
        return Usage(sum(each.cpu_seconds for each in used), sum(each.rss_bytes for each in used))

    def check_alive(self) -> None:
        for node in self.cluster.nodes:
            node.process.check_alive()

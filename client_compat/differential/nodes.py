"""A cluster from a scenario's point of view: one probe (a client that records responses) for each broker, and operations that stop, kill
and restart brokers.

Rules:
- All probes share one table of placeholders, so that a value has the same placeholder in every broker's responses.
- The connection to a broker is closed before the broker stops, and opened again on the next request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from client_compat.differential.normalise import Names
from client_compat.differential.probe import Probe, Seen, Versions
from client_compat.kafka.cluster import Cluster
from client_compat.support.brokers import HOST
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.schema import Message

BY_CHANCE = frozenset(
    {
        ("MetadataResponse", "controller_id"),
        ("DescribeClusterResponse", "controller_id"),
        ("ApiVersionsResponse", "finalized_features_epoch"),
        ("PartitionResult", "high_watermark"),
        ("ReplicaState", "log_end_offset"),
        ("ReplicaState", "replica_directory_id"),
    }
)
"""Fields that vary between runs.

Kafka returns a random live broker as the controller; the others are offsets of the metadata log, which depend on the number of starts, and
directory ids.
"""


@dataclass(slots=True)
class Nodes:
    """The brokers of one cluster by id. The ids are the same in every compared cluster. `ports` are the ports at which clients reach the
    brokers, if they are not the brokers' own.
    """

    cluster: Cluster
    versions: Versions
    ports: Mapping[int, int] | None = None
    seen: list[Seen] = field(default_factory=list)
    names: Names = field(default_factory=lambda: Names(BY_CHANCE))
    _probes: dict[int, Probe] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.cluster.brokers:
            port = node.process.port if self.ports is None else self.ports[node.node_id]
            self.names.learn(("port", port), f"port of {node.node_id}")
            self._probes[node.node_id] = Probe(HOST, port, self.versions, self.seen, self.names)

    @property
    def living(self) -> list[int]:
        """The ids of the brokers that run at the moment."""
        return [node.node_id for node in self.cluster.brokers if node.process.alive]

    def at(self, node_id: int) -> Probe:
        return self._probes[node_id]

    def ask(self, node_id: int, label: str, request: Message, version: int | None = None, *, sort: bool = True) -> Any:
        """Send a request to one broker; record the response under `label` and return it. `version` None: the highest that both clusters
        support. `sort`: sort lists whose order Kafka does not define."""
        return self.at(node_id).ask(f"{label}, at {node_id}", request, version, sort=sort)

    def everywhere(self, label: str, request: Message, version: int | None = None) -> None:
        """Send the request to every running broker, one after the other, and record the responses under `label`. `version` None: the
        highest that both clusters support."""
        for node_id in self.living:
            self.ask(node_id, label, request, version)

    def range(self, key: ApiKey) -> Sequence[int]:
        return self.at(self.living[0]).range(key)

    def stop(self, node_id: int) -> None:
        """Stop the broker in a controlled shutdown, so that its partitions get new leaders first."""
        self.at(node_id).close()
        self.cluster.broker(node_id).stop()

    def kill(self, node_id: int) -> None:
        """Kill the broker with SIGKILL, without a controlled shutdown."""
        self.at(node_id).close()
        self.cluster.broker(node_id).process.kill()

    def start(self, node_id: int) -> None:
        self.cluster.broker(node_id).start()

    def close(self) -> None:
        """Close the connections to all brokers of the cluster."""
        for probe in self._probes.values():
            probe.close()

"""The nodes of a local cluster in one data directory: the settings of each node, and the formatting of the nodes' directories.

Invariants:
- Each node has a directory of its own. All nodes are on this machine; the controller is reached over loopback.
- A new data directory is formatted for a dynamic quorum (KIP-853) with one voter, whose address may change at a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.files import Files
from ottla.broker.storage.formatting import METADATA_DIRECTORY, format_directory
from ottla.broker.storage.meta_properties import FILE_NAME, decode_meta, encode_meta
from ottla.broker.storage.partition_metadata import FILE_NAME as PARTITION_METADATA
from ottla.protocol.uuids import encode_uuid, random_uuid

CONTROLLER_ID: Final = 3000
LISTENER: Final = "CONTROLLER"
LOOPBACK: Final = "127.0.0.1"
_REPLICAS: Final[Mapping[str, int]] = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}
"""Kafka's default replication settings of the internal topics, which `with_replication_settings` lowers for clusters with fewer brokers."""


class Layout(NamedTuple):
    """The nodes in the data directory `path`: brokers with the ids 1 to `brokers`, and one controller. Broker 1 listens on `host` at
    `port`, the others at the following ports, the controller at the last one. With port 0 every node chooses a free port. `listener` is the
    name of the brokers' listener.
    """

    path: Path
    brokers: int
    host: str = LOOPBACK
    port: int = 9092
    listener: str = "PLAINTEXT"

    def port_of(self, index: int) -> int:
        """Return the port of the node at `index`: 0 for broker 1 and so on; the controller has the index after the last broker.
        Return 0 if the nodes choose free ports."""
        return self.port + index if self.port else 0

    @property
    def controller_directory(self) -> Path:
        return self.path / "controller"

    def directory_of(self, broker: int) -> Path:
        """Return the directory of the broker with this id."""
        return self.path / f"broker{broker}"

    def controller_settings(self, port: int | None = None) -> dict[str, str]:
        """Return the controller's settings. `port` is the port that it listens on; None means the port that this layout gives it."""
        at = f"{LOOPBACK}:{self.port_of(self.brokers) if port is None else port}"
        return {
            "process.roles": "controller",
            "listeners": f"{LISTENER}://{at}",
            "advertised.listeners": "",
            **_of_node(CONTROLLER_ID, self.controller_directory, at),
        }

    def broker_settings(self, broker: int, controller_port: int) -> dict[str, str]:
        """Return the settings of the broker with the id `broker`, which reaches the controller at `controller_port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return {
            "process.roles": "broker",
            "listeners": f"{self.listener}://{host}:{self.port_of(broker - 1)}",
            **_of_node(broker, self.directory_of(broker), f"{LOOPBACK}:{controller_port}"),
        }

    def format(self, files: Files, random_bytes: Callable[[int], bytes], now_ms: int, cluster_id: str | None = None) -> None:
        """Format the directories of the nodes that are not formatted yet. `cluster_id` is the id of a new cluster (None: a random one); an
        existing cluster keeps its id. Raises LogDirRefused if the data directory is that of a single node, or a node's directory belongs to
        another node or cluster."""
        if files.exists(self.path / FILE_NAME):
            raise LogDirRefused(f"{self.path} is the directory of a single node; give several nodes another data directory")
        cluster_id = self._known_cluster_id(files) or cluster_id or encode_uuid(random_uuid(random_bytes))
        levels = bootstrap_levels({}, None, dynamic_quorum=True)
        voter_at = [VoterEndpoint(LISTENER, LOOPBACK, self.port_of(self.brokers))]
        nodes = [(self.controller_directory, CONTROLLER_ID)]
        nodes += [(self.directory_of(number), number) for number in range(1, self.brokers + 1)]
        for directory, node_id in nodes:
            format_directory(
                directory,
                cluster_id,
                node_id,
                levels,
                now_ms,
                is_controller=node_id == CONTROLLER_ID,
                ignore_formatted=True,
                voter_at=voter_at if node_id == CONTROLLER_ID else (),
                files=files,
                random_bytes=random_bytes,
            )

    def _known_cluster_id(self, files: Files) -> str | None:
        path = self.controller_directory / FILE_NAME
        try:
            return decode_meta(files.read_bytes(path)).cluster_id
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise LogDirRefused(f"{path}: {error}") from error


def brokers_in(path: Path, nodes: Collection[Path]) -> int | None:
    """Return the number of brokers of the local cluster in the data directory `path`. `nodes` are the node directories that were found
    there. Return None unless they are exactly the directories of a `Layout`: a controller and at least one broker."""
    count = len(nodes) - 1
    layout = Layout(path, count)
    expected = {layout.controller_directory, *(layout.directory_of(number) for number in range(1, count + 1))}
    return count if count > 0 and expected == set(nodes) else None


def assign_new_cluster_id(path: Path, brokers: int, random_bytes: Callable[[int], bytes], now_ms: int) -> None:
    """Give the nodes of a local cluster a new cluster id. `path` is a copy of a cluster's data directory. Because of the new id, nodes of
    the original cluster, which may still be running, reject the copied nodes.

    The copied brokers' metadata logs are deleted, because they name the original's controller; the brokers fetch the log from their own
    controller again. Raises OSError if a file cannot be read or written, ValueError for a damaged meta.properties.
    """
    layout, cluster_id = Layout(path, brokers), encode_uuid(random_uuid(random_bytes))
    directories = [layout.directory_of(number) for number in range(1, brokers + 1)]
    for directory in (layout.controller_directory, *directories):
        meta = decode_meta((directory / FILE_NAME).read_bytes())
        (directory / FILE_NAME).write_bytes(encode_meta(replace(meta, cluster_id=cluster_id), now_ms))
    for directory in directories:
        for file in (directory / METADATA_DIRECTORY).glob("*"):  # without one in a broker that was never started
            if file.name != PARTITION_METADATA:
                file.unlink()


def _of_node(node_id: int, directory: Path, controller_at: str) -> dict[str, str]:
    return {
        "node.id": str(node_id),
        "log.dir": str(directory),
        "log.dirs": "",  # a settings file may set it, and it would override log.dir
        "controller.listener.names": LISTENER,
        "controller.quorum.bootstrap.servers": controller_at,
        "controller.quorum.voters": "",
    }


def with_replication_settings(given: Mapping[str, str], explicit: Mapping[str, str], brokers: int) -> dict[str, str]:
    """Return the settings `given`, with the replication settings of the internal topics added, lowered to the number of brokers if needed.
    Settings in `explicit`, which the user has set, are not added."""
    missing = {name: str(min(count, brokers)) for name, count in _REPLICAS.items() if name not in explicit}
    return {**missing, **given}

"""A cluster in one data directory: which settings make each node what it is, and how the directories of the nodes begin.

Rules that hold inside:
- Each node has a folder of its own. All of them are on this machine; the controller is reached over loopback.
- A new data directory is formatted, as a quorum of one voter that is reached wherever it listens now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.files import Files
from ottla.broker.storage.formatting import format_directory
from ottla.broker.storage.meta_properties import FILE_NAME, decode_meta, random_id
from ottla.broker.storage.partition_metadata import encode_uuid

CONTROLLER_ID: Final = 3000
LISTENER: Final = "CONTROLLER"
LOOPBACK: Final = "127.0.0.1"
_REPLICAS: Final[Mapping[str, int]] = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}
"""Kafka's defaults, for which fewer brokers are too few."""


class Layout(NamedTuple):
    """So many brokers, with ids from 1, from `port` on at `host`, the controller behind them; with port 0 all at free ones. `path`: the
    data directory; `listener`: the name of the brokers' one."""

    path: Path
    brokers: int
    host: str = LOOPBACK
    port: int = 9092
    listener: str = "PLAINTEXT"

    def port_of(self, place: int) -> int:
        """Of the broker at this place, from 0; the controller is behind the last one."""
        return self.port + place if self.port else 0

    @property
    def controller_directory(self) -> Path:
        return self.path / "controller"

    def directory_of(self, broker: int) -> Path:
        """Of the broker with this id."""
        return self.path / f"broker{broker}"

    def controller_settings(self, port: int | None = None) -> dict[str, str]:
        """What the controller has to be set to; with a `port` it listens there."""
        at = f"{LOOPBACK}:{self.port_of(self.brokers) if port is None else port}"
        return {
            "process.roles": "controller",
            "listeners": f"{LISTENER}://{at}",
            "advertised.listeners": "",
            **_of_node(CONTROLLER_ID, self.controller_directory, at),
        }

    def broker_settings(self, broker: int, controller_port: int) -> dict[str, str]:
        """What the broker with this id has to be set to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return {
            "process.roles": "broker",
            "listeners": f"{self.listener}://{host}:{self.port_of(broker - 1)}",
            **_of_node(broker, self.directory_of(broker), f"{LOOPBACK}:{controller_port}"),
        }

    def format(self, files: Files, random_bytes: Callable[[int], bytes], now_ms: int, cluster_id: str | None = None) -> None:
        """Makes the directories that are not there yet, of `cluster_id` where there is no cluster yet. Raises LogDirRefused."""
        if files.exists(self.path / FILE_NAME):
            raise LogDirRefused(f"{self.path} is the directory of one node; several keep a folder each in theirs: name another one")
        cluster_id = self._known_cluster_id(files) or cluster_id or encode_uuid(random_id(random_bytes))
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


def _of_node(node_id: int, directory: Path, controller_at: str) -> dict[str, str]:
    return {
        "node.id": str(node_id),
        "log.dir": str(directory),
        "log.dirs": "",  # which a file may set, and which would win
        "controller.listener.names": LISTENER,
        "controller.quorum.bootstrap.servers": controller_at,
        "controller.quorum.voters": "",
    }


def fitted(given: Mapping[str, str], explicit: Mapping[str, str], brokers: int) -> dict[str, str]:
    """`given`, with Kafka's defaults of replication as far as so few brokers can serve them, where nobody gave others."""
    missing = {name: str(min(count, brokers)) for name, count in _REPLICAS.items() if name not in explicit}
    return {**missing, **given}

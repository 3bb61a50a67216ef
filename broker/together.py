"""A controller and several brokers in one process, on one loop: `ottla serve --brokers 3`.

Rules that hold inside:
- Each node is what it would be in a process of its own, with its own listener, and a folder of its own in the data directory. They talk
  over the network.
- A new data directory is formatted, as a quorum of one voter that is reached wherever it listens now.
- Start: the controller, then all brokers at once. Stop: all brokers at once, each as the controller lets it go, then the controller.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.app import Broker
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.controller_node import ControllerNode
from ottla.broker.core.settings_load import data_dir
from ottla.broker.net.listeners import host_and_port, listeners_of
from ottla.broker.process import StartError
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.formatting import format_directory
from ottla.broker.storage.meta_properties import FILE_NAME, decode_meta, random_id
from ottla.broker.storage.partition_metadata import encode_uuid
from ottla.broker.world import World

if TYPE_CHECKING:
    from ottla.broker.core.clock import Clock
    from ottla.broker.core.settings import BrokerSettings
    from ottla.broker.core.timers import Timers
    from ottla.broker.faults.engine import Faults

CONTROLLER_ID: Final = 3000
BROKERS_MAX: Final = 100
_LISTENER: Final = "CONTROLLER"
_LOOPBACK: Final = "127.0.0.1"
_REPLICAS: Final[Mapping[str, int]] = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}
"""Kafka's defaults, for which fewer brokers are too few."""

logger = logging.getLogger("ottla.broker")

SettingsOf = Callable[[Mapping[str, str]], "BrokerSettings"]
"""The settings of a node, for which these were given over all others; raises SettingsError."""


class Layout(NamedTuple):
    """So many brokers, from `port` on at `host`, the controller behind them; with port 0 all at free ones. `path`: the data directory."""

    path: Path
    brokers: int
    host: str = _LOOPBACK
    port: int = 9092

    def port_of(self, place: int) -> int:
        """Of the broker at this place, from 0; the controller is behind the last one."""
        return self.port + place if self.port else 0


class NodesTogether:
    """One cluster. `faults_of` makes what is scripted for each broker."""

    def __init__(
        self,
        layout: Layout,
        settings_of: SettingsOf,
        faults_of: Callable[[], Faults],
        world_of: Callable[[], World] = World,
        exit_now: Callable[[int], object] = os._exit,
    ) -> None:
        self._layout = layout
        self._settings_of = settings_of
        self._faults_of = faults_of
        self._world_of = world_of
        self._exit_now = exit_now
        self._world = world_of()
        controller = settings_of(self._of_controller())
        self.controller = ControllerNode(controller, self._world, exit_now)
        self.brokers: dict[int, Broker] = {}
        self._cluster_id = controller.cluster_id
        for number in range(1, layout.brokers + 1):
            listeners_of(settings_of(self._of_broker(number, 0)))  # what is wrong with them is told before anything is begun

    @property
    def clock(self) -> Clock:
        """Of all."""
        return self._world.clock

    @property
    def timers(self) -> Timers:
        """Some of them."""
        return self.controller.timers

    @property
    def ports(self) -> list[int]:
        """Those of the brokers, in the order of their ids."""
        return [broker.address[1] for broker in self.brokers.values()]

    def greeting(self) -> str:
        """Where the brokers are, and the controller."""
        brokers = ",".join(host_and_port(*broker.address) for broker in self.brokers.values())
        return (
            f"Ottla is listening on {brokers} (data in {self._layout.path}, cluster id {self.controller.log_dir.cluster_id}, "
            f"{len(self.brokers)} brokers, controller on {host_and_port(*self.controller.address)})"
        )

    async def start(self) -> None:
        """Every node up to accepting connections. Raises StartError, OSError; then none of them is left."""
        try:
            self._format()
        except LogDirRefused as error:
            raise StartError(str(error)) from error
        await self.controller.start()
        port = self.controller.address[1]
        made = {number: self._broker(number, port) for number in range(1, self._layout.brokers + 1)}
        started = await asyncio.gather(*(broker.start() for broker in made.values()), return_exceptions=True)
        self.brokers = {number: made[number] for number, error in zip(made, started, strict=True) if error is None}
        errors = [error for error in started if error is not None]
        if errors:
            await self.stop()
            raise errors[0]

    async def warm_up(self) -> None:
        """One imports for all."""
        for broker in list(self.brokers.values())[:1]:
            await broker.warm_up()

    async def stop(self) -> None:
        """Every node, in order."""
        await asyncio.gather(*(broker.stop() for broker in self.brokers.values()))
        await self.controller.stop()

    # --- what each is --------------------------------------------------------------------------------------------------------------

    def _broker(self, number: int, controller_port: int) -> Broker:
        settings = self._settings_of(self._of_broker(number, controller_port))
        return Broker(settings, self._faults_of(), self._world_of(), self._exit_now)

    def _of_controller(self) -> dict[str, str]:
        at = f"{_LOOPBACK}:{self._layout.port_of(self._layout.brokers)}"
        return {
            "process.roles": "controller",
            "listeners": f"{_LISTENER}://{at}",
            "advertised.listeners": "",
            **self._of_node(CONTROLLER_ID, "controller", at),
        }

    def _of_broker(self, number: int, controller_port: int) -> dict[str, str]:
        host = f"[{self._layout.host}]" if ":" in self._layout.host else self._layout.host
        return {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{host}:{self._layout.port_of(number - 1)}",
            **self._of_node(number, f"broker{number}", f"{_LOOPBACK}:{controller_port}"),
        }

    def _of_node(self, node_id: int, folder: str, controller_at: str) -> dict[str, str]:
        return {
            "node.id": str(node_id),
            "log.dir": str(self._layout.path / folder),
            "log.dirs": "",  # which a file may set, and which would win
            "controller.listener.names": _LISTENER,
            "controller.quorum.bootstrap.servers": controller_at,
            "controller.quorum.voters": "",
        }

    # --- the data directory --------------------------------------------------------------------------------------------------------

    def _format(self) -> None:
        """Makes what is not there yet. Raises LogDirRefused."""
        path, files, random_bytes = self._layout.path, self._world.files, self._world.random.randbytes
        if files.exists(path / FILE_NAME):
            raise LogDirRefused(f"{path} is the directory of one node; several keep a folder each in theirs: name another one")
        cluster_id = self._known_cluster_id() or self._cluster_id or encode_uuid(random_id(random_bytes))
        levels, now_ms = bootstrap_levels({}, None, dynamic_quorum=True), self.clock.now_ms()
        voter_at = [VoterEndpoint(_LISTENER, _LOOPBACK, self._layout.port_of(self._layout.brokers))]
        nodes = [(data_dir(self.controller.settings), CONTROLLER_ID)]
        nodes += [(path / f"broker{number}", number) for number in range(1, self._layout.brokers + 1)]
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

    def _known_cluster_id(self) -> str | None:
        path = data_dir(self.controller.settings) / FILE_NAME
        try:
            return decode_meta(self._world.files.read_bytes(path)).cluster_id
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise LogDirRefused(f"{path}: {error}") from error


def fitted(given: Mapping[str, str], explicit: Mapping[str, str], brokers: int) -> dict[str, str]:
    """`given`, with Kafka's defaults of replication as far as so few brokers can serve them, where nobody gave others."""
    missing = {name: str(min(count, brokers)) for name, count in _REPLICAS.items() if name not in explicit}
    return {**missing, **given}

"""A controller and several brokers in one process, on one loop: `ottla serve --brokers 3`.

Rules that hold inside:
- Each node is what it would be in a process of its own, with its own listener, and a folder of its own in the data directory. They talk
  over the network.
- A new data directory is formatted.
- Start: the controller, then all brokers at once. Stop: all brokers at once, each as the controller lets it go, then the controller.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.app import Broker
from ottla.broker.controller_node import ControllerNode
from ottla.broker.environment import Environment
from ottla.broker.layout import Layout
from ottla.broker.net.listeners import host_and_port
from ottla.broker.process import StartError
from ottla.broker.storage.errors import LogDirRefused

if TYPE_CHECKING:
    from ottla.broker.core.clock import Clock
    from ottla.broker.core.settings import BrokerSettings
    from ottla.broker.core.timers import Timers
    from ottla.broker.faults.engine import Faults

BROKERS_MAX: Final = 100

logger = logging.getLogger("ottla.broker")

NODE: Final = ContextVar("NODE", default="")
"""The node whose work this is: what it starts, and whoever connects to it, goes on in the same context."""

SettingsOf = Callable[[Mapping[str, str]], "BrokerSettings"]
"""The settings of a node, for which these were given over all others; raises SettingsError."""


class LocalCluster:
    """One cluster. `faults_of` makes what is scripted for each broker; `tell` goes on with the greeting, for the brokers' addresses."""

    def __init__(
        self,
        layout: Layout,
        settings_of: SettingsOf,
        faults_of: Callable[[], Faults],
        environment_of: Callable[[], Environment] = Environment,
        exit_now: Callable[[int], object] = os._exit,
        *,
        tell: Callable[[str], str] | None = None,
    ) -> None:
        self._layout = layout
        self._tell = tell
        self._settings_of = settings_of
        self._faults_of = faults_of
        self._world_of = environment_of
        self._exit_now = exit_now
        self._environment = environment_of()
        controller = settings_of(layout.controller_settings())
        self.controller = ControllerNode(controller, self._environment, exit_now)
        self.brokers: dict[int, Broker] = {}
        self.faults: dict[int, Faults] = {}
        """Of each broker."""
        self._cluster_id = controller.cluster_id
        for number in range(1, layout.brokers + 1):
            self._broker(number, 0)  # what is wrong with its settings and locks is told before anything is begun

    @property
    def clock(self) -> Clock:
        """Of all."""
        return self._environment.clock

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
        ) + ("" if self._tell is None else f"\n{self._tell(brokers)}")

    async def start(self) -> None:
        """Every node up to accepting connections. Raises StartError, OSError; then none of them is left."""
        try:
            self._layout.format(self._environment.files, self._environment.random.randbytes, self.clock.now_ms(), self._cluster_id)
        except LogDirRefused as error:
            raise StartError(str(error)) from error
        await _named("controller", self.controller.start())
        port = self.controller.address[1]
        made = {number: self._broker(number, port) for number in range(1, self._layout.brokers + 1)}
        started = await asyncio.gather(
            *(_named(f"broker {number}", broker.start()) for number, broker in made.items()), return_exceptions=True
        )
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
        await asyncio.gather(*(_named(f"broker {number}", broker.stop()) for number, broker in self.brokers.items()))
        await _named("controller", self.controller.stop())

    # --- what each is --------------------------------------------------------------------------------------------------------------

    def _broker(self, number: int, controller_port: int) -> Broker:
        settings = self._settings_of(self._layout.broker_settings(number, controller_port))
        faults = self.faults[number] = self._faults_of()
        return Broker(settings, faults, self._world_of(), self._exit_now)


def _named(who: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    context = copy_context()
    context.run(NODE.set, who)
    return asyncio.create_task(work, context=context)


def name_nodes_in_log() -> None:
    """Every line of the log says whose it is, where it is one node's."""

    def name(record: logging.LogRecord) -> bool:
        if who := NODE.get():
            record.name = f"{who} {record.name}"
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(name)

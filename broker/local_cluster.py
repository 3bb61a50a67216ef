"""Several nodes in one process: a controller and its brokers on one event loop, as for `ottla serve --brokers 3`.

Invariants:
- Each node works as in a process of its own, with its own listener and its own directory in the data directory. The nodes communicate over
  the network.
- A new data directory is formatted.
- Start: the controller, then all brokers at once. Stop: all brokers at once, each by a controlled shutdown, then the controller.
- At each start the controller ends the sessions of all brokers, so that after a crash they can register without waiting for their old
  sessions to expire: no broker of the crashed process can still be running.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar, copy_context
from typing import Any, Final

from ottla.broker.app import Broker
from ottla.broker.controller_node import ControllerNode
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.layout import Layout
from ottla.broker.net.network import host_and_port
from ottla.broker.process import StartError
from ottla.broker.storage.errors import LogDirRefused

BROKERS_MAX: Final = 100

logger = logging.getLogger("ottla.broker")

NODE: Final = ContextVar("NODE", default="")
"""The name of the node for which the current task runs, such as `broker 1`; empty outside a local cluster. It is the prefix of the node's
log lines; new tasks and connections inherit it."""

SettingsOf = Callable[[Mapping[str, str]], "BrokerSettings"]
"""A function that returns a node's complete settings: those of the user, overridden by its argument. It raises SettingsError."""


class LocalCluster:
    """A controller and its brokers on one event loop. `faults_of` returns the injected faults (fault rules) of a new broker; `ready_text`
    takes the brokers' addresses and returns further text for the greeting, which is printed after the start. `exit_now` is called with 1 to
    end the process at once after a fatal error."""

    def __init__(
        self,
        layout: Layout,
        settings_of: SettingsOf,
        faults_of: Callable[[], Faults],
        environment_of: Callable[[], Environment] = Environment,
        exit_now: Callable[[int], object] = os._exit,
        *,
        ready_text: Callable[[str], str] | None = None,
    ) -> None:
        self._layout = layout
        self._ready_text = ready_text
        self._settings_of = settings_of
        self._faults_of = faults_of
        self._environment_of = environment_of
        self._exit_now = exit_now
        self._environment = environment_of()
        controller = settings_of(layout.controller_settings())
        self.controller = ControllerNode(controller, self._environment, exit_now)
        self.brokers: dict[int, Broker] = {}
        self.faults: dict[int, Faults] = {}
        """The injected faults (fault rules) of each broker, by broker id."""
        self._cluster_id = controller.cluster_id
        for number in range(1, layout.brokers + 1):
            self._broker(number, 0)  # finds invalid settings before anything is started

    @property
    def clock(self) -> Clock:
        """The clock that all nodes share."""
        return self._environment.clock

    @property
    def ports(self) -> list[int]:
        """The brokers' ports, in the order of their ids."""
        return [broker.address[1] for broker in self.brokers.values()]

    def greeting(self) -> str:
        """Return the line that is printed after the start: the addresses of the brokers and of the controller."""
        brokers = ",".join(host_and_port(*broker.address) for broker in self.brokers.values())
        return (
            f"Ottla is listening on {brokers} (data in {self._layout.path}, cluster id {self.controller.log_dir.cluster_id}, "
            f"{len(self.brokers)} brokers, controller on {host_and_port(*self.controller.address)})"
        ) + ("" if self._ready_text is None else f"\n{self._ready_text(brokers)}")

    async def start(self) -> None:
        """Start every node and accept connections. If a node cannot start, stop the brokers that did start, then raise StartError or
        OSError."""
        try:
            self._layout.format(self._environment.files, self._environment.random.randbytes, self.clock.now_ms(), self._cluster_id)
        except LogDirRefused as error:
            raise StartError(str(error)) from error
        await _named("controller", self.controller.start())
        self.controller.role.state.end_sessions(range(1, self._layout.brokers + 1))
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
        """Import the request handlers, so that no later request waits for an import. One broker imports them for all, because they share
        the process."""
        for broker in list(self.brokers.values())[:1]:
            await broker.warm_up()

    async def stop(self) -> None:
        """Stop all brokers, then the controller."""
        await asyncio.gather(*(_named(f"broker {number}", broker.stop()) for number, broker in self.brokers.items()))
        await _named("controller", self.controller.stop())

    # --- nodes ---------------------------------------------------------------------------------------------------------------------

    def _broker(self, number: int, controller_port: int) -> Broker:
        settings = self._settings_of(self._layout.broker_settings(number, controller_port))
        faults = self.faults[number] = self._faults_of()
        return Broker(settings, faults, self._environment_of(), self._exit_now)


def _named(who: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    context = copy_context()
    context.run(NODE.set, who)
    return asyncio.create_task(work, context=context)


def name_nodes_in_log() -> None:
    """Prefix each log line's logger name with the name of the node that logs it."""

    def name(record: logging.LogRecord) -> bool:
        if who := NODE.get():
            record.name = f"{who} {record.name}"
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(name)

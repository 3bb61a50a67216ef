"""The controller of a cluster in this process, on a thread and a loop of its own; one that is started again keeps its port and its log."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.cluster.image import MetadataImage
from ottla.broker.controller_node import ControllerNode
from ottla.broker.core.clock import MovableClock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.environment import Environment
from ottla.broker.layout import Layout
from ottla.broker.testing.broker_thread import NodeThread


class InProcessController(NodeThread[ControllerNode]):
    """`settings_of` makes settings of what the controller has to be set to, `environment_of` what it runs in, by its clock."""

    def __init__(
        self, layout: Layout, settings_of: Callable[[dict[str, str]], BrokerSettings], environment_of: Callable[[MovableClock], Environment]
    ) -> None:
        super().__init__(layout.controller_directory, "controller")
        self.exit_codes: list[int] = []
        """What the controller would have ended its process with."""
        self.port = 0
        """0 before the first start."""
        self.clock = MovableClock()
        self._layout, self._settings_of, self._world_of = layout, settings_of, environment_of

    @property
    def image(self) -> MetadataImage:
        """What is committed."""
        return self.call(lambda node: node.role.newest.image)

    def start(self) -> InProcessController:
        """Start it, unless it runs. Raises StartError or OSError."""
        if self.running:
            return self
        self.start_loop()
        try:
            self.call_async(self._start())
        except BaseException:
            self.end_loop()
            raise
        self.running = True
        return self

    async def _start(self) -> None:
        settings = self._settings_of(self._layout.controller_settings(self.port or None))
        self.node = ControllerNode(settings, self._world_of(self.clock), exit_now=self.exit_codes.append)
        await self.node.start()
        self.port = self.node.address[1]

    def stop(self) -> None:
        """A clean stop, as SIGTERM's. Brokers serve on, and nothing is decided."""
        self.resume()
        if self.running:
            self.call_async(self.node.stop())
            self.end_loop()

    def kill(self) -> None:
        """What SIGKILL leaves: no sync, no clean-shutdown marker."""
        if self.paused:
            self.resume(self.node.crash)
        else:
            self.call(lambda node: node.crash())
        self.end_loop()

    def restart(self, *, kill: bool = False) -> None:
        """Stop (or kill) it and start it again on the same directory and port."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

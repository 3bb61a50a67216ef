"""The controller of a cluster in this process, on its own thread and event loop. A restart keeps its port and log."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.cluster.image import MetadataImage
from ottla.broker.controller_node import ControllerNode
from ottla.broker.core.clock import MovableClock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.environment import Environment
from ottla.broker.layout import Layout
from ottla.broker.testing.broker_thread import InProcessNode


class InProcessController(InProcessNode[ControllerNode]):
    """The controller of a cluster in this process. `settings_of` makes the controller's settings from a dict of names and values;
    `environment_of` makes its environment (files, network, randomness) from its clock. While the controller is stopped, brokers continue to
    serve, but no metadata changes."""

    def __init__(
        self, layout: Layout, settings_of: Callable[[dict[str, str]], BrokerSettings], environment_of: Callable[[MovableClock], Environment]
    ) -> None:
        super().__init__(layout.controller_directory, "controller")
        self.exit_codes: list[int] = []
        """The exit codes with which the controller wanted to end its process. In a test, it ends only itself."""
        self.port = 0
        """The port that the controller listens on; 0 before the first start."""
        self.clock = MovableClock()
        self._layout, self._settings_of, self._environment_of = layout, settings_of, environment_of

    @property
    def image(self) -> MetadataImage:
        """The newest metadata image that the controller has committed."""
        return self.call(lambda node: node.role.newest.image)

    async def _start(self) -> None:
        settings = self._settings_of(self._layout.controller_settings(self.port or None))
        self.node = ControllerNode(settings, self._environment_of(self.clock), exit_now=self.exit_codes.append)
        await self.node.start()
        self.port = self.node.address[1]

    def kill(self) -> None:
        """Kill the controller, as SIGKILL does: its files are not synced, and it writes no clean-shutdown marker."""
        if self.paused:
            self.resume(self.node.crash)
        else:
            self.call(lambda node: node.crash())
        self.end_loop()

    def restart(self, *, kill: bool = False) -> None:
        """Stop the controller (with `kill`: kill it), and start it on the same directory and port. Raises StartError or OSError if the
        start fails."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

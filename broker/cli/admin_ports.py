"""The admin port (HTTP, for faults, the clock and the console) of `ottla serve` and `ottla gateway`: its command-line options, and its
server, one for each broker of the process or one for the gateway."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from ottla.broker.core.clock import MovableClock
from ottla.broker.faults.engine import Faults
from ottla.broker.net.network import host_and_port
from ottla.broker.process import StartError

if TYPE_CHECKING:
    from ottla.broker.app import Broker
    from ottla.broker.net.gateway import Gateway

PORT: Final = 9644
"""The default port of the admin server (HTTP, for faults, the clock and the web console)."""


def add_admin_options(made: argparse.ArgumentParser, port: Callable[[str], int]) -> None:
    """Add the options of the admin port to a parser. `port` parses a port number."""
    made.add_argument(
        "--admin-port",
        type=port,
        metavar="PORT",
        help="serve faults and the clock over HTTP on this port; with --brokers, on the following ports too (docs/faults.md; default off)",
    )
    made.add_argument(
        "--admin-host",
        default="127.0.0.1",
        metavar="HOST",
        help="address to bind the admin port to (default 127.0.0.1); traffic is not encrypted",
    )
    made.add_argument(
        "--admin-token",
        metavar="TOKEN",
        help="token that the admin port requires (default: OTTLA_ADMIN_TOKEN, or a generated one, which is printed; other users can see a "
        "command line)",
    )
    made.add_argument(
        "--admin-open-local",
        action="store_true",
        help="allow reads on the admin port from this machine without the token, including clients of a proxy on it (docs/security.md)",
    )
    made.add_argument(
        "--console",
        action="store_true",
        help=f"serve a page that shows what the broker does at /console of the admin port (default port {PORT}; docs/console.md)",
    )


def wants_admin(options: argparse.Namespace) -> bool:
    """Return whether an option of the command asks for an admin port (HTTP, for faults, clock and console)."""
    return options.admin_port is not None or options.console


class AdminPorts:
    """The admin ports of a process, one for each broker or one for the gateway; they share a token and a clock. Creating it raises
    StartError if the packages of the extra `admin` are not installed, or if the given token cannot be sent in an HTTP header."""

    def __init__(self, options: argparse.Namespace) -> None:
        from ottla.broker.admin.tokens import TOKEN_ENV, new_token  # noqa: PLC0415 # most starts have no admin port

        try:
            import ottla.broker.admin.server  # noqa: F401, PLC0415 # an extra
        except ImportError as error:
            raise StartError(f"the admin port needs the packages of the extra 'admin': pip install 'ottla[admin]' ({error})") from error
        given = options.admin_token or os.environ.get(TOKEN_ENV)
        if given and not (given.isascii() and given.isprintable() and " " not in given):
            raise StartError(f"the admin port's token (--admin-token, {TOKEN_ENV}) must be ASCII without spaces, to fit in an HTTP header")
        self.clock = MovableClock()
        self._token = given or new_token()
        self._lines = [] if given else [f"The admin port's token: {self._token}"]
        self._is_given, self._open_local = bool(given), options.admin_open_local
        self._host, self._console = options.admin_host, options.console
        self._port = PORT if options.admin_port is None else options.admin_port

    def announcement(self, ready_text: Callable[[str], str] | None) -> Callable[[str], str] | None:
        """Return a function that takes the broker's address and returns the text to print at the start: the text of `ready_text`, if any,
        then lines with the admin ports' generated token and the consoles' URLs. Return `ready_text` itself if there are no such lines,
        which is so if the user gave the token."""
        if not self._lines:
            return ready_text
        return lambda address: "\n".join([*([] if ready_text is None else [ready_text(address)]), *self._lines])

    @asynccontextmanager
    async def broker_lifespan(self, broker: Broker, faults: Faults, number: int = 0) -> AsyncIterator[None]:
        """Serve the admin port of a broker while the context lasts. In a process with several brokers, `number` is the broker's position,
        from 0."""
        from ottla.broker.admin.server import admin_port  # noqa: PLC0415 # an extra

        port = self._port + number if self._port else 0
        wanted = {"token": self._token, "console": self._console, "open_local": self._open_local}
        async with admin_port(broker, faults, self.clock, port, self._host, **wanted) as bound:
            self._announce(bound, f"node {broker.settings.node_id}")
            yield

    @asynccontextmanager
    async def gateway_lifespan(self, gateway: Gateway) -> AsyncIterator[None]:
        """Serve the admin port of a gateway while the context lasts."""
        from ottla.broker.admin.server import gateway_admin_port  # noqa: PLC0415 # an extra

        wanted = {"token": self._token, "console": self._console, "open_local": self._open_local}
        async with gateway_admin_port(gateway, self.clock, self._port, self._host, **wanted) as bound:
            self._announce(bound, "the gateway")
            yield

    def _announce(self, port: int, node: str) -> None:
        logger, at = logging.getLogger("ottla.broker"), host_and_port(self._host, port)
        logger.info("The admin port is http://%s", at)
        if self._console:
            logger.info("The console is http://%s/console (%s)", at, node)
            if not self._is_given:
                self._lines.append(f"The console of {node}: http://{at}/console#token={self._token}")

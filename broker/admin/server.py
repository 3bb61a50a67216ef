"""Serves the admin port on the broker's own loop, behind its guard."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from ottla.broker.admin.connection import BoundedConnection
from ottla.broker.admin.guard import Guard
from ottla.broker.admin.http_api import make_api
from ottla.broker.admin.tokens import kept
from ottla.broker.app import Broker
from ottla.broker.core.clock import MovableClock
from ottla.broker.faults.engine import Faults
from ottla.broker.net.listeners import host_and_port

HOST = "127.0.0.1"


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the broker's."""
        yield


@asynccontextmanager
async def admin_port(
    broker: Broker,
    faults: Faults,
    clock: MovableClock,
    port: int,
    host: str = HOST,
    *,
    token: str,
    console: bool = False,
    open_local: bool = False,
) -> AsyncIterator[int]:
    """Serve while the context lasts, with the console if it is asked for, and keep the token for this user's tools; gives the port.

    `open_local`: whether requests from this machine that only read need no token.

    Raises OSError where `port` is taken or `host` is none of this machine's.
    """
    try:
        sock = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = (error.strerror or "").partition(" (while ")[0]  # which the standard library adds
        raise OSError(error.errno, f"cannot listen on http://{host_and_port(host, port)}, the admin port: {reason}") from error
    api, open_paths, closed_paths = make_api(broker, faults, clock), frozenset[str](), frozenset[str]()
    if console:
        from ottla.broker.admin.console.rooms import RECORDS, add_console  # noqa: PLC0415 # who did not ask for it does not pay for it

        open_paths = add_console(api, broker, faults, clock)
        if broker.services.authorizer is not None:
            closed_paths = RECORDS
    guarded = Guard(api, token, open_paths, open_local=open_local, closed_paths=closed_paths)
    # Who asks is who is connected; a proxy on this machine may say for whom, and nobody else may.
    # h11 has a bound on what a request says of itself; of what else may be installed not everything has one.
    config = uvicorn.Config(
        guarded, http=BoundedConnection, ws="none", forwarded_allow_ips="127.0.0.1", log_level="warning", lifespan="off", access_log=False
    )
    server = _Server(config)
    serving = asyncio.get_running_loop().create_task(server.serve([sock]))
    bound = sock.getsockname()[1]
    try:
        with kept(token, bound):
            yield bound
    finally:
        server.should_exit = True
        server.force_exit = True
        await serving
        sock.close()

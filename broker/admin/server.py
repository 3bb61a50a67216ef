"""Serves the HTTP admin port of a broker or a gateway on its event loop. `Guard` gets every request first, and checks its token."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from ottla.broker.admin.connection import BoundedConnection
from ottla.broker.admin.guard import Guard
from ottla.broker.admin.http_api import make_api, make_gateway_api
from ottla.broker.admin.marks import MarkControl, add_marks
from ottla.broker.admin.tokens import stored_token
from ottla.broker.app import Broker
from ottla.broker.core.clock import MovableClock
from ottla.broker.faults.engine import Faults
from ottla.broker.net.gateway import Gateway
from ottla.broker.net.network import host_and_port
from ottla.broker.storage.marks import remove_left

HOST = "127.0.0.1"


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers: the broker handles signals."""
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
    """Serve the admin port of a broker on `host` while the context lasts, and yield the port; `port` 0 chooses one. `console` adds the
    console.

    The token is stored in a file, where commands of the same user find it. With `open_local`, read-only requests from this machine need no
    token. Raises OSError if `port` is in use or `host` is not an address of this machine.
    """
    await asyncio.to_thread(remove_left, broker.log_dir.path.absolute())
    marks = MarkControl(broker, clock)
    api, open_paths, closed_paths = make_api(broker, faults, clock), frozenset[str](), frozenset[str]()
    add_marks(api, marks)
    if console:
        from ottla.broker.admin.console.views import RECORDS, add_console  # noqa: PLC0415 # costs start time only when it is asked for

        open_paths = add_console(api, broker, faults, clock)
        if broker.services.authorizer is not None:
            closed_paths = RECORDS
    guarded = Guard(api, token, open_paths, open_local=open_local, closed_paths=closed_paths)
    try:
        async with served(guarded, port, host, token=token) as bound:
            yield bound
    finally:
        marks.close()


@asynccontextmanager
async def gateway_admin_port(
    gateway: Gateway, clock: MovableClock, port: int, host: str, *, token: str, console: bool = False, open_local: bool = False
) -> AsyncIterator[int]:
    """Serve the admin port of a gateway (Ottla's proxy in front of a cluster) while the context lasts, with the arguments, result and
    errors of `admin_port`. Reading the wire log always needs the token, because the gateway does not know what its cluster authorizes."""
    api, open_paths, closed_paths = make_gateway_api(gateway, clock), frozenset[str](), frozenset[str]()
    if console:
        from ottla.broker.admin.console.views import RECORDS, add_gateway_console  # noqa: PLC0415 # costs start time only when it is asked for

        open_paths, closed_paths = add_gateway_console(api, gateway, clock), RECORDS
    guarded = Guard(api, token, open_paths, open_local=open_local, closed_paths=closed_paths)
    async with served(guarded, port, host, token=token) as bound:
        yield bound


@asynccontextmanager
async def served(guarded: Guard, port: int, host: str, *, token: str) -> AsyncIterator[int]:
    """Serve the guarded API on `host` while the context lasts, and yield the port; `port` 0 chooses one. The token is stored in a file,
    where commands of the same user find it.

    Raises OSError if `port` is in use or `host` is not an address of this machine.
    """
    try:
        sock = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = (error.strerror or "").partition(" (while ")[0]  # drop the suffix that asyncio adds
        raise OSError(error.errno, f"cannot listen on http://{host_and_port(host, port)}, the admin port: {reason}") from error
    # X-Forwarded-For is trusted only from a proxy on this machine, so that no other peer can pretend to be local.
    # h11 is used because it limits the size of request headers; the other implementations that may be installed do not limit all of it.
    config = uvicorn.Config(
        guarded, http=BoundedConnection, ws="none", forwarded_allow_ips="127.0.0.1", log_level="warning", lifespan="off", access_log=False
    )
    server = _Server(config)
    serving = asyncio.get_running_loop().create_task(server.serve([sock]))
    bound = sock.getsockname()[1]
    try:
        with stored_token(token, bound):
            yield bound
    finally:
        server.should_exit = True
        server.force_exit = True
        await serving
        sock.close()

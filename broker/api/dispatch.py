"""From one frame to one reply. The only catch-all of the broker is here.

Rules: a request is handled the moment it is parsed; only an answer that has to wait becomes a task. What the bytes got wrong goes up as a
ProtocolError (the session closes that connection); what a handler got wrong is logged once with its trace and answered with
UNKNOWN_SERVER_ERROR where the response has a field for it, else the connection closes. Observers and scripted faults stand around the
handler (`api/pipeline`), and change nothing of this; where there are any, nothing is answered `at_once`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from ottla.broker.api.context import CloseConnection, Context, Peer
from ottla.broker.api.reply import CLOSE, Buffer, Reply
from ottla.broker.api.routes import ROUTES
from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.broker.storage.errors import FsyncFailed
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_request, encode_response, response_class
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import FrameTooLarge, UnsupportedVersion
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.headers import read_request_header

if TYPE_CHECKING:
    from ottla.broker.api.context import Services
    from ottla.broker.api.pipeline import Interceptor
    from ottla.broker.api.produce_lane import ProduceLane
    from ottla.broker.api.throttling import Throttling
    from ottla.broker.core.clock import Clock
    from ottla.broker.core.timers import Timers
    from ottla.broker.faults.engine import Faults
    from ottla.protocol.codec import Request, RequestHeader

_PRODUCE_KEY = ApiKey.PRODUCE.to_bytes(2, "big")

logger = logging.getLogger(__name__)
peer_logger = logging.getLogger(PEERS)


class Needed(Protocol):
    """What a dispatcher itself asks of the services that it hands to handlers."""

    @property
    def clock(self) -> Clock: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def stop_at_once(self) -> Callable[[BaseException], None]: ...


class Served(Protocol):
    """One API: which versions are served, and by what."""

    @property
    def min_version(self) -> int: ...
    @property
    def max_version(self) -> int: ...
    @property
    def handle(self) -> Callable[[Any, Any], Any]: ...


class Dispatcher:
    """Decodes, finds the handler, calls it, encodes. One for all connections. `context` is what handlers are given beside the request."""

    def __init__(
        self,
        services: Needed,
        faults: Faults,
        routes: Mapping[int, Served] | None = None,
        context: Callable[[int, str | None, Peer, Any, int], Any] = Context,
    ) -> None:
        self._services = services
        self._context = context
        self._faults = faults
        self._routes: Mapping[int, Served] = {int(key): route for key, route in (ROUTES if routes is None else routes).items()}
        self._tasks: set[asyncio.Task[Reply]] = set()
        self._counts: dict[int, int] = {}
        """Requests by key and version, but for those of the lane."""
        self.throttling: Throttling | None = None
        """While there are quotas for clients."""

    @property
    def requests(self) -> dict[tuple[int, int], int]:
        """How many requests of each API key and version were handled since the start."""
        found = {(kind >> 8, kind & 0xFF): count for kind, count in self._counts.items()}
        lane = self.__dict__.get("_lane")  # there is none before the first Produce
        if lane is not None:
            for version, count in enumerate(lane.answered):
                if count:
                    key = int(ApiKey.PRODUCE), version
                    found[key] = found.get(key, 0) + count
        return found

    @property
    def waiting(self) -> int:
        """Requests whose answers are not there yet."""
        return len(self._tasks)

    def handle(self, peer: Peer, frame: Buffer) -> Reply | asyncio.Future[Reply]:
        """The reply to one frame, or the future that will have it. Raises ProtocolError for bytes that cannot be trusted."""
        if len(frame) > limits.STRUCTURED_REQUEST_BYTES and not self.may_be_so_large(frame):
            raise FrameTooLarge(len(frame), limits.STRUCTURED_REQUEST_BYTES)
        try:
            request = decode_request(frame)
        except UnsupportedVersion as error:
            return self._unsupported(error)
        header = request.header
        route = self._routes.get(header.api_key)
        if route is None or not route.min_version <= header.api_version <= route.max_version:
            raise UnsupportedVersion(header.api_key, header.api_version, header.correlation_id, header.client_id)
        counts, kind = self._counts, header.api_key << 8 | header.api_version
        counts[kind] = counts.get(kind, 0) + 1
        context = self._context(header.api_version, header.client_id, peer, self._services, header.api_key)
        try:
            if self._faults.active or self.throttling is not None:
                answer = self._intercepted(context, request, route, len(frame))
            else:
                answer = route.handle(context, request.body)
            if hasattr(answer, "__await__"):
                return self._later(self._finish(answer, header))
            return _encoded(answer, header)
        except Exception as error:  # noqa: BLE001 # the one catch-all: a bug in a handler must not take other connections down
            return self._answer_to(error, header)

    def may_be_so_large(self, frame: Buffer) -> bool:
        """Whether this may have more than STRUCTURED_REQUEST_BYTES."""
        return bytes(frame[:2]) == _PRODUCE_KEY

    def at_once(self, data: bytes, at: int) -> tuple[Reply, int] | None:
        """The reply to an ordinary Produce, whose frame with its size is at `at`, and where the next frame begins. None: `handle` it."""
        if self._faults.active or self.throttling is not None or data[at + PREFIX_BYTES : at + PREFIX_BYTES + 2] != _PRODUCE_KEY:
            return None
        if (lane := self._lane) is None:
            return None
        try:
            return lane.answer(data, at)
        except Exception as error:  # noqa: BLE001 # the same catch-all, for the lane
            header, _ = read_request_header(memoryview(data)[at + PREFIX_BYTES :])
            return self._answer_to(error, header), len(data)

    @cached_property
    def _lane(self) -> ProduceLane | None:
        """Imported with the first Produce; None where it has to be asked who may write."""
        services = cast("Services", self._services)  # a broker's: a controller's dispatcher has no lane
        if services.authorizer is not None:
            return None
        from ottla.broker.api.produce_lane import ProduceLane  # noqa: PLC0415 # as the handlers

        return ProduceLane(services.partitions, services.txn_verification, services.settings.socket_request_max_bytes)

    async def drain(self, timeout_ms: int) -> int:
        """Wait for the answers still pending; returns how many were not there in time (they are cancelled)."""
        self._faults.drop_waiting()
        tasks = set(self._tasks)
        if not tasks:
            return 0
        late = await wait_at_most(self._services.timers, self._services.clock, timeout_ms, tasks)
        for task in late:
            task.cancel()
        return len(late)

    def _intercepted(self, context: Context, request: Request, route: Served, size: int) -> Any:
        """What the handler gives, with quotas, observers and scripted faults around it. `size` is that of the frame."""
        handle = partial(route.handle, context, request.body)
        if self.throttling is not None:
            handle = partial(self.throttling.around, context, request, size, handle)
        if not self._faults.active:
            return handle()
        from ottla.broker.api.pipeline import Call, intercepted, observed  # noqa: PLC0415 # only brokers under test need it

        faults = self._faults
        interceptors: list[Interceptor] = [partial(observed, faults)] if faults.observers else []
        if faults.rules:
            from ottla.broker.api.faulty import FaultyWay  # noqa: PLC0415 # only brokers with scripted faults need it

            way = FaultyWay(faults)
            interceptors = [way.to_and_fro, *interceptors, way.at_the_handler]
        call = Call(context, request, detach=lambda answer: self._later(self._finish(answer, request.header)))
        return intercepted(call, handle, interceptors)

    def _later(self, reply: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
        task = asyncio.get_running_loop().create_task(reply)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finish(self, answer: Awaitable[Any], header: RequestHeader) -> Reply:
        try:
            return _encoded(await answer, header)
        except Exception as error:  # noqa: BLE001 # the same catch-all, for the part of a handler that waited
            return self._answer_to(error, header)

    def _answer_to(self, error: Exception, header: RequestHeader) -> Reply:
        """What an exception of a handler means for its client; call it where the exception is handled."""
        if isinstance(error, CloseConnection):
            peer_logger.info("Closing the connection of client %s: %s", shown(header.client_id), error)
            return error.reply
        if isinstance(error, FsyncFailed):
            self._services.stop_at_once(error)
            return CLOSE
        return _bug(header)

    def _unsupported(self, error: UnsupportedVersion) -> Reply:
        """ApiVersions is answered whatever its version, in the format of v0, with what we do speak (KIP-511); all else closes."""
        if error.api_key != ApiKey.API_VERSIONS:
            raise error
        from ottla.broker.api.k18_api_versions import unsupported_version_response  # noqa: PLC0415 # needed once per old client, not at start

        return encode_response(ApiKey.API_VERSIONS, 0, error.correlation_id, unsupported_version_response())


def _encoded(response: Any, header: RequestHeader) -> Reply:
    return None if response is None else encode_response(header.api_key, header.api_version, header.correlation_id, response)


def _bug(header: RequestHeader) -> Reply:
    logger.exception("Bug while handling api key %d version %d", header.api_key, header.api_version)
    make: Callable[..., Any] = response_class(header.api_key)
    if "error_code" not in getattr(make, "__dataclass_fields__", {}):
        return CLOSE
    return encode_response(header.api_key, header.api_version, header.correlation_id, make(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))

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
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from ottla.broker.api.context import CloseConnection, Context, Peer, Services
from ottla.broker.api.reply import CLOSE, Buffer, Reply
from ottla.broker.api.request_parts import too_many, way_of
from ottla.broker.api.routes import ROUTES
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Faults
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.broker.storage.errors import FsyncFailed
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request, RequestHeader, decode_request, encode_response, response_class
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import FrameTooLarge, ProtocolError, TooManyElements, UnsupportedVersion
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.headers import read_request_header

if TYPE_CHECKING:
    from ottla.broker.api.large_requests import Budget, Compute, LargeRequests
    from ottla.broker.api.pipeline import Interceptor
    from ottla.broker.api.produce_lane import ProduceLane
    from ottla.broker.api.throttling import Throttling

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
    def turns(self) -> Turns: ...
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
    """Decodes, finds the handler, calls it, encodes. One for all connections. `context` is what handlers are given beside the request;
    `compute` runs on a thread what would hold the loop (without it everything is done at once)."""

    def __init__(
        self,
        services: Needed,
        faults: Faults,
        routes: Mapping[int, Served] | None = None,
        context: Callable[[int, str | None, Peer, Any, int], Any] = Context,
        compute: Compute[Any] | None = None,
    ) -> None:
        self._services = services
        self._context = context
        self._faults = faults
        self._routes: Mapping[int, Served] = {int(key): route for key, route in (ROUTES if routes is None else routes).items()}
        self._compute = compute
        self._tasks: set[asyncio.Task[Reply]] = set()
        self._counts: dict[int, int] = {}
        """Requests by key and version, but for those of the lane."""
        self.budget: Budget | None = None
        """What large requests that wait are counted in, too."""
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
        if len(frame) > limits.DECODED_AT_ONCE_BYTES and self._is_large(frame):
            header, _ = read_request_header(memoryview(frame))
            context, route = self._begin(peer, header)
            return self._later(self._handle_large(frame, header, context, route))
        try:
            request = _decoded(frame)
        except UnsupportedVersion as error:
            return self._unsupported(error)
        header = request.header
        context, route = self._begin(peer, header)
        try:
            answer = self._answer(context, request, route, len(frame))
            if hasattr(answer, "__await__"):
                return self._later(self._finish(answer, header, context))
            return _encoded(answer, header)
        except Exception as error:  # noqa: BLE001 # the one catch-all: a bug in a handler must not take other connections down
            return self._answer_to(error, header)

    def _begin(self, peer: Peer, header: RequestHeader) -> tuple[Any, Served]:
        """What the handler of a request is given beside it, and its route. Raises UnsupportedVersion."""
        route = self._routes.get(header.api_key)
        if route is None or not route.min_version <= header.api_version <= route.max_version:
            raise UnsupportedVersion(header.api_key, header.api_version, header.correlation_id, header.client_id)
        counts, kind = self._counts, header.api_key << 8 | header.api_version
        counts[kind] = counts.get(kind, 0) + 1
        context = self._context(header.api_version, header.client_id, peer, self._services, header.api_key)
        return context, route

    def _answer(self, context: Any, request: Request, route: Served, size: int) -> Any:
        """What the handler gives, or a future of it."""
        if self._faults.active or self.throttling is not None:
            return self._intercepted(context, request, route, size)
        return self._handled(context, request, route, size)

    def _handled(self, context: Any, request: Request, route: Served, size: int) -> Any:
        if size <= limits.SPLIT_REQUEST_BYTES or self._compute is None:
            return route.handle(context, request.body)
        if (way := way_of(request.body)) is not None:
            # A scripted fault may have to name all elements; else each goes with the part that is done.
            body = copy(request.body) if self._faults.active else request.body
            return self._large.handled(context, route.handle, body, way)
        return route.handle(context, request.body)

    def _is_large(self, frame: Buffer) -> bool:
        """Whether to decode it takes so long that a thread does it."""
        return self._compute is not None and (bytes(frame[:2]) != _PRODUCE_KEY or len(frame) > limits.PRODUCE_DECODED_AT_ONCE_BYTES)

    async def _handle_large(self, frame: Buffer, header: RequestHeader, context: Any, route: Served) -> Reply:
        large = self._large
        try:
            async with large.room(len(frame)):
                request = await large.compute(lambda: _decoded(frame))
                answer = self._answer(context, request, route, len(frame))
                responses = [await answer if hasattr(answer, "__await__") else answer]
                del answer
                reply: Reply = await large.compute(lambda: _encoded(responses.pop(), header))
                return reply
        except ProtocolError as error:
            peer_logger.warning("Closing a connection: %s", error)
            return CLOSE
        except Exception as error:  # noqa: BLE001 # the same catch-all, for large requests
            return self._answer_to(error, header)

    @cached_property
    def _large(self) -> LargeRequests:
        """Imported with the first of them."""
        from ottla.broker.api.large_requests import LargeRequests  # noqa: PLC0415 # as the handlers

        assert self._compute is not None
        return LargeRequests(self._services.clock, self._services.turns, self._compute, self.budget)

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
        handle = partial(self._handled, context, request, route, size)
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
        call = Call(context, request, detach=lambda answer: self._later(self._finish(answer, request.header, context)))
        return intercepted(call, handle, interceptors)

    def _later(self, reply: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
        task = asyncio.get_running_loop().create_task(reply)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finish(self, answer: Awaitable[Any], header: RequestHeader, context: Any) -> Reply:
        try:
            response = await answer
            if context.spent_ns and self._compute is not None:
                reply: Reply = await self._compute(lambda: _encoded(response, header))
                return reply
            return _encoded(response, header)
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


def _decoded(frame: Buffer) -> Request:
    """Raises ProtocolError, also where the request asks for more than may be decided in one step."""
    request = decode_request(frame)
    if len(frame) > limits.SPLIT_REQUEST_BYTES and (excess := too_many(request.body)) is not None:
        raise TooManyElements(type(request.body).__name__, excess)
    return request


def _encoded(response: Any, header: RequestHeader) -> Reply:
    return None if response is None else encode_response(header.api_key, header.api_version, header.correlation_id, response)


def _bug(header: RequestHeader) -> Reply:
    logger.exception("Bug while handling api key %d version %d", header.api_key, header.api_version)
    make: Callable[..., Any] = response_class(header.api_key)
    if "error_code" not in getattr(make, "__dataclass_fields__", {}):
        return CLOSE
    return encode_response(header.api_key, header.api_version, header.correlation_id, make(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))

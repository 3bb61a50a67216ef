"""The dispatcher: from one frame to one reply. It has the broker's only catch-all for exceptions.

Rules:
* A request is handled as soon as it is parsed. Only a response that has to wait becomes a task.
* Invalid bytes raise ProtocolError, and the session closes that connection.
* An unexpected exception of a handler is logged once with its traceback. The response is UNKNOWN_SERVER_ERROR if it has a field for it;
  otherwise the connection is closed.
* Observers and scripted faults wrap the handler (`api/pipeline`) and change none of this. While an observer or fault is active, the fast
  path (`try_fast_path`) is off.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from copy import copy
from functools import cached_property, partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from ottla.broker.api.context import CloseConnection, Context, Peer
from ottla.broker.api.reply import CLOSE, Reply
from ottla.broker.api.request_parts import count_elements, oversized_array, split_of
from ottla.broker.api.routes import Answer, Route, Routes, broker_routes
from ottla.broker.api.services import NodeServices, PartitionServices, Services
from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.faults.engine import Faults
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.broker.storage.errors import FsyncFailed
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request, RequestHeader, decode_request, encode_response, response_class
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import FrameTooLarge, ProtocolError, TooManyElements, UnsupportedVersion
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.headers import read_request_header
from ottla.protocol.schema import Message
from ottla.protocol.wire import Buffer

if TYPE_CHECKING:
    from ottla.broker.api.large_requests import Budget, Compute, LargeRequests
    from ottla.broker.api.produce_fast_path import ProduceFastPath
    from ottla.broker.api.throttling import Throttling

_PRODUCE_KEY = ApiKey.PRODUCE.to_bytes(2, "big")

logger = logging.getLogger(__name__)
peer_logger = logging.getLogger(PEERS)


def _dismiss(coroutine: object) -> None:
    """Close the coroutines that `coroutine` received as arguments, and their own arguments, if `coroutine` was never started. Otherwise
    Python warns that they were never awaited.
    """
    if not isinstance(coroutine, CoroutineType) or inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED:
        return
    for inner in inspect.getcoroutinelocals(coroutine).values():
        if isinstance(inner, CoroutineType):
            _dismiss(inner)
            inner.close()


class Dispatcher:
    """Decodes the requests of all connections of a node, calls their handlers and encodes the responses. `compute` runs long computations
    on a thread; without it, they run on the event loop.
    """

    def __init__(
        self,
        services: NodeServices,
        faults: Faults,
        routes: Routes | None = None,
        compute: Compute[Any] | None = None,
    ) -> None:
        self._services = services
        self._faults = faults
        self._routes = broker_routes() if routes is None else routes
        self._compute = compute
        self._tasks: set[asyncio.Task[Reply]] = set()
        self._counts: dict[int, int] = {}
        """The number of requests since the start, without those that the Produce fast path answered. The key is API key * 256 + version."""
        self.budget: Budget | None = None
        """The memory budget that all connections share, None without one. The bytes of a large request count towards it while the request
        waits or is handled.
        """
        self.throttling: Throttling | None = None
        """The object that applies client quotas to requests; None while no client quota is configured."""

    @property
    def requests(self) -> dict[tuple[int, int], int]:
        """The number of requests of each API key and version since the start, including those of the Produce fast path."""
        found = {(kind >> 8, kind & 0xFF): count for kind, count in self._counts.items()}
        fast_path = self.__dict__.get("_fast_path")  # it is created with the first Produce
        if fast_path is not None:
            for version, count in enumerate(fast_path.answered):
                if count:
                    key = int(ApiKey.PRODUCE), version
                    found[key] = found.get(key, 0) + count
        return found

    @property
    def waiting(self) -> int:
        """The number of requests whose responses are pending."""
        return len(self._tasks)

    def handle(self, peer: Peer, frame: Buffer) -> Reply | asyncio.Future[Reply]:
        """Handle the request in one frame. Return its reply or, if the response is pending, a future of the reply. Raises ProtocolError for
        invalid bytes."""
        if len(frame) > limits.STRUCTURED_REQUEST_BYTES and not self.may_exceed_request_limit(frame):
            raise FrameTooLarge(len(frame), limits.STRUCTURED_REQUEST_BYTES)
        if len(frame) > limits.DECODED_AT_ONCE_BYTES and self._is_large(frame):
            header, _ = read_request_header(memoryview(frame))
            context, route = self._begin(peer, header)
            return self._later(self._handle_large(frame, header, context, route))
        try:
            request = _decoded(frame) if len(frame) > limits.SPLIT_REQUEST_BYTES else decode_request(frame)
            header = request.header
            context, route = self._begin(peer, header)
        except UnsupportedVersion as error:
            return self._unsupported(error)
        except ProtocolError as error:
            return self._unsupported(self._unserved(frame, error))
        try:
            answer = self._answer(context, request, route, len(frame))
            if answer is None or isinstance(answer, Message):
                return _encoded(answer, header)
            return self._later(self._finish(answer, header, context))
        except Exception as error:  # noqa: BLE001 # the one catch-all: a bug in a handler must not affect other connections
            return self._answer_to(error, header)

    def decode(self, frame: Buffer) -> Request:
        """Decode a request without handling it. Requests of APIs that this listener does not serve are decoded, too. Raises
        UnsupportedVersion if the listener serves the API in other versions only, and other ProtocolErrors for invalid bytes.
        """
        header, _ = read_request_header(memoryview(frame))
        if header.api_key in self._routes:
            self._route(header)
        return decode_request(frame)

    def _begin(self, peer: Peer, header: RequestHeader) -> tuple[Context[NodeServices], Route]:
        """Count the request. Return its route (which has its handler), and the context for the handler. Raises UnsupportedVersion if this
        listener does not serve the API in the request's version.
        """
        route = self._route(header)
        counts, kind = self._counts, header.api_key << 8 | header.api_version
        counts[kind] = counts.get(kind, 0) + 1
        context = Context(header.api_version, header.client_id, peer, self._services, header.api_key)
        return context, route

    def _route(self, header: RequestHeader) -> Route:
        route = self._routes.get(header.api_key)
        if route is None or not route.min_version <= header.api_version <= route.max_version:
            raise UnsupportedVersion(header.api_key, header.api_version, header.correlation_id, header.client_id)
        return route

    def _unserved(self, frame: Buffer, error: ProtocolError) -> UnsupportedVersion:
        """Return UnsupportedVersion if this listener does not serve the API version of `frame`, which could not be decoded. The client then
        gets this error instead of the decode error `error`. Raises `error` if the listener serves the version.
        """
        header, _ = read_request_header(memoryview(frame))
        try:
            self._route(header)
        except UnsupportedVersion as unserved:
            return unserved
        raise error

    def _answer(self, context: Context[NodeServices], request: Request, route: Route, size: int) -> Answer:
        """Call the request's handler, and return the response or an awaitable of it. Client quotas, observers and fault rules are applied
        if there are any. `size` is the request frame's size in bytes."""
        if self._faults.active or self.throttling is not None:
            return self._intercepted(context, request, route, size)
        if size <= limits.SPLIT_REQUEST_BYTES:  # `_handled` does the same; nearly every request saves this call
            return route.handle(context, request.body)
        return self._handled(context, request, route, size)

    def _handled(self, context: Context[NodeServices], request: Request, route: Route, size: int) -> Answer:
        if size <= limits.SPLIT_REQUEST_BYTES or self._compute is None:
            return route.handle(context, request.body)
        if (split := split_of(request.body)) is not None:
            # Splitting empties the request's array, so that the elements of each part are freed when the part is done. While fault rules or
            # observers are active, a copy is split, because they read the whole request afterwards.
            body = copy(request.body) if self._faults.active else request.body
            return self._large.handle_in_parts(context, route.handle, body, split)
        answer = route.handle(context, request.body)
        if not (answer is None or isinstance(answer, Message)) and context.api_key != ApiKey.ENVELOPE:  # which decodes another request
            context.peer.begin_wait()
        return answer

    def _is_large(self, frame: Buffer) -> bool:
        """Return whether decoding the frame would block the event loop for so long that a thread must decode it."""
        return self._compute is not None and (bytes(frame[:2]) != _PRODUCE_KEY or len(frame) > limits.PRODUCE_DECODED_AT_ONCE_BYTES)

    async def _handle_large(self, frame: Buffer, header: RequestHeader, context: Context[NodeServices], route: Route) -> Reply:
        large = self._large
        try:
            async with large.admission(context.peer, len(frame), header.api_key) as admission:
                request, admission.elements = await large.compute(lambda: _decoded_and_counted(frame))
                answer = self._answer(context, request, route, len(frame))
                responses = [answer if answer is None or isinstance(answer, Message) else await answer]
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
        """The object that handles large requests in parts and on threads (`large_requests`). Its module is imported with the first large
        request."""
        from ottla.broker.api.large_requests import LargeRequests  # noqa: PLC0415 # imported when needed, like the handlers

        assert self._compute is not None
        return LargeRequests(self._services.clock, self._services.turns, self._compute, self.budget)

    def may_exceed_request_limit(self, frame: Buffer) -> bool:
        """Return whether the frame may be larger than STRUCTURED_REQUEST_BYTES. Only a Produce request may, because its size is mostly
        records."""
        return bytes(frame[:2]) == _PRODUCE_KEY

    def try_fast_path(self, peer: Peer, data: bytes, at: int) -> tuple[Reply, int] | None:
        """Handle the frame that begins at `data[at]` by the fast path, a shortcut for ordinary Produce requests. Return the reply and the
        position of the next frame. Return None if the frame is not an ordinary Produce; the caller must then use `handle`.
        """
        if self._faults.active or not data.startswith(_PRODUCE_KEY, at + PREFIX_BYTES):
            return None
        try:
            if self.throttling is not None:
                return self._fast_path.answer_with_quotas(peer, data, at, self.throttling)
            return self._fast_path.answer(peer, data, at)
        except Exception as error:  # noqa: BLE001 # the same catch-all, for the fast path
            header, _ = read_request_header(memoryview(data)[at + PREFIX_BYTES :])
            return self._answer_to(error, header), len(data)

    @cached_property
    def _fast_path(self) -> ProduceFastPath:
        """The shortcut that handles ordinary Produce requests. Its module is imported with the first Produce request."""
        services = cast("Services", self._services)  # a broker's services: a controller's dispatcher has no fast path
        from ottla.broker.api.produce_fast_path import ProduceFastPath  # noqa: PLC0415 # imported when needed, like the handlers

        return ProduceFastPath(
            services.partitions,
            services.txn_verification,
            services.authorizer,
            services.settings.socket_request_max_bytes,
            services.clock.spent_ns,
            newest=self._routes[ApiKey.PRODUCE].max_version,
        )

    async def drain(self, timeout_ms: int) -> int:
        """Wait at most `timeout_ms` for pending responses, then cancel the remaining ones. Return how many were cancelled."""
        self._faults.drop_waiting()
        late = await wait_at_most(self._services.timers, self._services.clock, timeout_ms, set(self._tasks))
        self.abort()
        if late:
            await asyncio.wait(late)
        return len(late)

    def abort(self) -> None:
        """Cancel all pending responses. The clients that wait for them get no response."""
        for task in self._tasks:
            _dismiss(task.get_coro())
            task.cancel()

    def _intercepted(self, context: Context[NodeServices], request: Request, route: Route, size: int) -> Answer:
        """Call the handler, with client quotas, observers and fault rules applied around it, and return its response. `size` is the request
        frame's size in bytes."""
        handle = partial(self._handled, context, request, route, size)
        if self.throttling is not None:
            handle = partial(self.throttling.around, context, request, size, handle)
        if not self._faults.active:
            return handle()
        from ottla.broker.api.carrier import BrokerCarrier  # noqa: PLC0415 # only a broker under test needs it
        from ottla.broker.api.interceptors import intercepted  # noqa: PLC0415 # as above
        from ottla.broker.api.pipeline import Call  # noqa: PLC0415 # as above

        carrier = BrokerCarrier(cast("PartitionServices", self._services))  # only a broker has observers and fault rules
        call = Call(carrier, request, context.peer.number, size, lambda answer: self._later(self._finish(answer, request.header, context)))
        return intercepted(call, handle, self._faults)

    def _later(self, reply: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
        task = asyncio.get_running_loop().create_task(reply)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finish(self, answer: Awaitable[Message | None], header: RequestHeader, context: Context[NodeServices]) -> Reply:
        try:
            response = await answer
            if context.spent_ns and self._compute is not None:
                reply: Reply = await self._compute(lambda: _encoded(response, header))
                return reply
            return _encoded(response, header)
        except Exception as error:  # noqa: BLE001 # the same catch-all, for the part of a handler that waited
            return self._answer_to(error, header)

    def _answer_to(self, error: Exception, header: RequestHeader) -> Reply:
        """Return the reply to a request whose handler raised `error`; a failed fsync also stops the node. Must be called in the `except`
        block, because the traceback of an unexpected error is logged.
        """
        if isinstance(error, CloseConnection):
            peer_logger.info("Closing the connection of client %s: %s", shown(header.client_id), error)
            return error.reply
        if isinstance(error, FsyncFailed):
            self._services.stop_at_once(error)
            return CLOSE
        return _bug(header)

    def _unsupported(self, error: UnsupportedVersion) -> Reply:
        """Return the response to an ApiVersions request of an unsupported version: in the format of version 0, with the supported range
        (KIP-511). Raises `error` for any other API.
        """
        if error.api_key != ApiKey.API_VERSIONS:
            raise error
        from ottla.broker.api.k18_api_versions import unsupported_version_response  # noqa: PLC0415 # needed only for newer clients

        return encode_response(ApiKey.API_VERSIONS, 0, error.correlation_id, unsupported_version_response(self._routes))


def _decoded(frame: Buffer) -> Request:
    """Decode a request. Raises ProtocolError for invalid bytes, and TooManyElements if an array of the request exceeds the limit of its
    API.
    """
    request = decode_request(frame)
    if (oversized := oversized_array(request.body)) is not None:
        raise TooManyElements(type(request.body).__name__, oversized)
    return request


def _decoded_and_counted(frame: Buffer) -> tuple[Request, int]:
    """Decode a request as `_decoded` does, and count its array elements."""
    request = _decoded(frame)
    return request, count_elements(request.body)


def _encoded(response: Message | None, header: RequestHeader) -> Reply:
    return None if response is None else encode_response(header.api_key, header.api_version, header.correlation_id, response)


def _bug(header: RequestHeader) -> Reply:
    logger.exception("Bug while handling api key %d version %d", header.api_key, header.api_version)
    make: Callable[..., Any] = response_class(header.api_key)
    if "error_code" not in getattr(make, "__dataclass_fields__", {}):
        return CLOSE
    return encode_response(header.api_key, header.api_version, header.correlation_id, make(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))

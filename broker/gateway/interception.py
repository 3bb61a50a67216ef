"""Applies fault rules (errors scripted for a test) and request observers (functions that get each request and response) to the requests
that pass through a gateway. They are the interceptors that a broker uses (`api/pipeline`, `api/faulty`); the innermost interceptor calls
the cluster, where a broker calls its handler.

Rules:
- While there are observers, every request whose version this project knows is intercepted; while there are only fault rules, the requests
  that a rule matches. An intercepted request and its response are decoded, and a connection's intercepted requests are answered one after
  the other, as in a broker. All other requests and responses pass as bytes.
- A request whose API is named in a rule is decoded to compare it with the rule. If the rule does not match, the request and its response
  pass as bytes.
- Authentication requests are never intercepted, as in a broker.
- A request that a rule holds back (with the actions `hold-request` and `late-request`) or delays is sent to the cluster even if its client
  has disconnected meanwhile. The gateway sends it on the connection to the cluster that it opened for this client.
- The client gets the bytes that the cluster sent, unless a rule or the gateway's addresses changed the response.
- A response of more than DECODED_AT_ONCE_BYTES is decoded and encoded on a thread: for 10,000 partitions, each of the two takes 25 to 50
  ms. The gateway decodes only one such response at a time, because TOTAL_BUFFERED_BYTES, the memory limit for all connections, does not
  count decoded responses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

from ottla.broker.api.context import CloseConnection
from ottla.broker.api.interceptors import intercepted
from ottla.broker.api.pipeline import Call
from ottla.broker.api.reply import CLOSE, Reply
from ottla.broker.api.routes import Answer
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.subject import subject_of
from ottla.broker.gateway.rewriting import AddressView, Steps, decoded, run_steps, sized
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request, decode_request, encode_response, request_class
from ottla.protocol.errors import ProtocolError
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.schema import Message
from ottla.protocol.wire import Buffer

_NEVER: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

T = TypeVar("T")

logger = logging.getLogger(__name__)
peer_logger = logging.getLogger(PEERS)


class Interception:
    """Applies fault rules (errors scripted for a test) and request observers (functions that get each request and response) to the requests
    of one gateway. For the code that does this in a broker, this object stands for the broker (`ottla.broker.api.pipeline.Carrier`)."""

    def __init__(self, faults: Faults, clock: Clock, timers: Timers, topic_name: Callable[[bytes], str | None]) -> None:
        self.faults = faults
        self.clock = clock
        self.timers = timers
        self._topic_name = topic_name
        self.decoding = asyncio.Lock()
        self._tasks: set[asyncio.Task[Reply]] = set()

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic, or None if no response of the cluster has named the id."""
        return self._topic_name(topic_id)

    def forget_producers(self, topic: str, partition: int | None) -> None:
        """Do nothing: only a broker has producer state, and a gateway rejects `expire-producer` (`faults.rules.NEEDS_A_BROKER`)."""

    def must_decode(self, api_key: int, version: int) -> bool:
        """Return whether a request must be decoded: a fault rule (an error scripted for a test) or a request observer may apply to its API,
        and this project knows its version."""
        if not self.faults.active or api_key in _NEVER or not self.faults.concern_api(api_key):
            return False
        try:
            message = request_class(api_key)
        except KeyError:
            return False
        return message.MIN_VERSION <= version <= message.MAX_VERSION

    def decode_if_matched(self, frame: memoryview, connection: int) -> Request | None:
        """Decode the request in `frame`, which came on the client connection with the number `connection`. Return it if a fault rule (an
        error scripted for a test) or a request observer applies to it, otherwise None. Raises ProtocolError for an invalid request."""
        request = decode_request(frame)
        header = request.header
        subject = subject_of(ApiKey(header.api_key), header.client_id, connection, request.body, self._topic_name)
        return request if self.faults.concern(subject) else None

    def answer(self, asking: InterceptedRequest, connection: int, size: int) -> Reply | asyncio.Task[Reply]:
        """Send an intercepted request through the interceptors (fault rules and request observers) to the cluster. Return the reply to the
        client, or a task whose result is the reply. `connection` is the number of the client's connection, `size` the request frame's size
        in bytes.
        """
        call = Call(self, asking.request, connection, size, lambda answer: self._start(asking, call, answer))
        try:
            answer = intercepted(call, partial(asking.ask, call), self.faults)
            if answer is None or isinstance(answer, Message):
                return asking.reply(call, answer)
            return self._start(asking, call, answer)
        except Exception as error:  # noqa: BLE001 # as in the dispatcher: a bug in a rule must not affect other connections
            return _closing(error, asking.request)

    async def stop(self) -> None:
        """Cancel the pending work of all intercepted requests, also of those that a fault rule (an error scripted for a test) holds."""
        self.faults.drop_waiting()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, asking: InterceptedRequest, call: Call, answer: Awaitable[Message | None]) -> asyncio.Task[Reply]:
        task = asyncio.get_running_loop().create_task(_finish(asking, call, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: asking.over())
        return task


class InterceptedRequest:
    """One request to which fault rules (errors scripted for a test) or request observers apply. A `duplicate` rule sends it more than once.

    `send` sends the frame to the cluster, and calls `answered` with the response, or `failed` if the connection ends before the response.
    `on_over` is called once, when the request no longer needs the connection to the cluster.
    """

    def __init__(
        self,
        request: Request,
        frame: memoryview,
        send: Callable[[InterceptedRequest, memoryview], None],
        on_over: Callable[[InterceptedRequest], None],
        decoding: asyncio.Lock,
    ) -> None:
        self.request = request
        self._frame = frame
        self._send = send
        self._on_over: Callable[[InterceptedRequest], None] | None = on_over
        self._decoding = decoding
        self._pending: list[asyncio.Future[tuple[memoryview, AddressView]]] = []
        self._raw: list[Buffer] | None = None
        self._is_large = False
        self._version = request.header.api_version

    @property
    def expects_response(self) -> bool:
        """Whether the cluster responds: a Produce request with acks=0 has no response."""
        return self.request.header.api_key != ApiKey.PRODUCE or self.request.body.acks != 0

    def ask(self, call: Call) -> Answer:
        """Send the request to the cluster. Return an awaitable whose result is the decoded response; for Produce with acks=0, return None.
        If the connection to the cluster has ended, this call or the awaitable raises CloseConnection."""
        self._send(self, self._frame)
        if not self.expects_response:
            self.over()
            return None
        arrival: asyncio.Future[tuple[memoryview, AddressView]] = asyncio.get_running_loop().create_future()
        self._pending.append(arrival)
        return self._response(arrival, call)

    def answered(self, frame: memoryview, view: AddressView) -> None:
        """Complete the oldest pending `ask` of this request with the cluster's response in `frame`."""
        future = self._pending.pop(0)
        if not future.done():
            future.set_result((frame, view))
        if not self._pending:
            self.over()

    async def _response(self, arrival: asyncio.Future[tuple[memoryview, AddressView]], call: Call) -> Message:
        """Wait for a response, decode it, and replace the brokers' addresses. Raises ProtocolError for an invalid response, and
        CloseConnection if none arrives."""
        frame, view = await arrival
        call.response_bytes = PREFIX_BYTES + len(frame)
        header = self.request.header
        self._is_large = self._is_large or len(frame) > limits.DECODED_AT_ONCE_BYTES
        steps = decoded(header.api_key, header.api_version, frame, view, limits.GATEWAY_LOGGED_ELEMENTS)
        if self._is_large:
            async with self._decoding:
                self._version, response, changed = await _in_turns(steps)
        else:
            self._version, response, changed = run_steps(steps)
        if self._raw is None and not changed:
            self._raw = sized(frame)
        message: Message = response
        return message

    def failed(self) -> None:
        """Fail every pending `ask` with CloseConnection, because the connection to the cluster has ended."""
        for future in self._pending:
            if not future.done():
                future.set_exception(CloseConnection("the cluster closed its connection"))
        self._pending.clear()

    def over(self) -> None:
        """Call `on_over`, if it was not called yet, because the request no longer needs the connection to the cluster."""
        on_over, self._on_over = self._on_over, None
        if on_over is not None:
            on_over(self)

    async def finished(self, call: Call, answer: Awaitable[Message | None]) -> Reply:
        """Wait for `answer`, the response after all interceptors of the request `call`, and return the bytes to send to the client; None if
        there is no response. Raises what `answer` raises."""
        response = await answer
        return await on_thread(partial(self.reply, call, response)) if self._is_large else self.reply(call, response)

    def reply(self, call: Call, response: Message | None) -> Reply:
        """Return the bytes to send to the client: the bytes that the cluster sent or, if a fault rule or the gateway's addresses changed
        the response, the response encoded again. Return None if there is no response.
        """
        if response is None:
            return None
        if not call.rules and self._raw is not None:
            return self._raw
        header = self.request.header
        return encode_response(header.api_key, self._version, header.correlation_id, response)


async def on_thread(compute: Callable[[], T]) -> T:
    """Run `compute` on a thread, and return its result. A cancelled caller still waits for the end of `compute`, because the thread holds a
    decoded response."""
    computing = asyncio.get_running_loop().run_in_executor(None, compute)
    try:
        return await asyncio.shield(computing)
    finally:
        await asyncio.wait([computing])
        del computing  # its exception's traceback refers to this frame: a reference cycle


async def _in_turns(steps: Steps[T]) -> T:
    """Run `steps` (the rewriting of a response), its long computations on a thread, with turns of other connections in between. Return the
    result.
    """
    result = None
    while True:
        try:
            work = steps.send(result)
        except StopIteration as done:
            value: T = done.value
            return value
        await asyncio.sleep(0)
        result = None if work is None else await on_thread(work)


async def _finish(asking: InterceptedRequest, call: Call, answer: Awaitable[Any]) -> Reply:
    try:
        return await asking.finished(call, answer)
    except Exception as error:  # noqa: BLE001 # the same catch-all, for rules that waited
        return _closing(error, asking.request)


def _closing(error: Exception, request: Request) -> Reply:
    if isinstance(error, CloseConnection):
        peer_logger.info("Closing the connection of client %s: %s", shown(request.header.client_id), error)
        return error.reply
    if isinstance(error, ProtocolError):
        peer_logger.warning("Closing a connection: %s", error)
    else:
        logger.error("Bug while intercepting api key %d version %d", request.header.api_key, request.header.api_version, exc_info=error)
    return CLOSE

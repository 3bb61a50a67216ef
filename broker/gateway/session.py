"""The state of one client connection through a gateway: bytes from the client or the cluster go in, bytes for the other side come out. No
I/O and no clock.

Rules:
- A broker answers the requests of a connection in order, so a response belongs to the oldest request that waits. If its correlation id is
  not that request's, the connection ends.
- A request passes undecoded, except a SaslHandshake and an intercepted request: one to which fault rules (errors scripted for a test) or
  observers of requests apply (`interception`). A response passes undecoded unless it may have to be changed (`rewriting`), or answers an
  intercepted request.
- A SaslHandshake for GSSAPI is rejected, after the cluster has responded: the rejection is the cluster's response, with its mechanisms,
  changed to an error if the cluster has accepted GSSAPI.
- Of a request that passes, only the API, version and correlation id are stored, until its response arrives.
- One call processes at most GATEWAY_FRAMES_PER_TURN frames. Further ones wait until the caller, in the next turn of the event loop, calls
  `resume` (`needs_turn`). Requests also wait while GATEWAY_IN_FLIGHT responses are outstanding.
- A large response is rewritten in parts, some of them on a thread (`compute`), and later responses wait for it (`is_rewriting`).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable, Mapping, Set
from typing import Any, Final

from ottla.broker.api.context import CloseConnection
from ottla.broker.api.reply import CLOSE, Action, FinalResponse, Reply
from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.gateway.frame_stream import FrameDecision, FrameStream
from ottla.broker.gateway.interception import InterceptedRequest, Interception
from ottla.broker.gateway.rewriting import GSSAPI, AddressView, Steps, decoded, is_rewritten, is_understood, rewritten, run_steps, sized
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request, acks_of, decode_request, encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import FrameTooLarge, MalformedHeader, ProtocolError, UnsupportedVersion
from ottla.protocol.wire import Buffer

_REQUEST: Final = struct.Struct(">hhi")
_CORRELATION_ID: Final = struct.Struct(">i")
_TLS_ALERTS: Final = frozenset({0x15030100, 0x15030200, 0x15030300})
"""The first four bytes of a TLS alert (type, version, high byte of the length), read as the size of a response. The
lowest byte is not compared."""
_TLS_HANDSHAKES: Final = frozenset({0x16030100, 0x16030200, 0x16030300})
_BYTES_OF_A_FRAME: Final = 8
"""Of a frame that is decoded, so many bytes count as one frame that passes (GATEWAY_FRAMES_PER_TURN)."""
_BEARER: Final = "OAUTHBEARER"
_BARE_TOKENS: Final[Mapping[str, int]] = {"PLAIN": 1, _BEARER: 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""How many tokens a client sends, by mechanism, after SaslHandshake version 0: as bare frames without any header. A bearer token that is
refused is followed by another frame, with which the client acknowledges the error (RFC 7628).
"""

peer_logger = logging.getLogger(PEERS)


class _InFlightRequest:
    """A request whose response was not sent to the client yet. If fault rules or observers apply to the request, `intercepted` is the
    object that gets the response, otherwise None. `mechanism` is the SASL mechanism of a SaslHandshake, or of a token without a Kafka
    header (`is_bare`)."""

    __slots__ = ("api_key", "collected", "correlation_id", "intercepted", "is_bare", "mechanism", "version")

    def __init__(self, api_key: int, version: int, correlation_id: int) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.collected = is_rewritten(api_key, version)
        self.intercepted: InterceptedRequest | None = None
        self.mechanism: str | None = None
        self.is_bare = False


class GatewaySession:
    """One client connection through the gateway; `number` is its number, for the fault rules. `on_change` is called when an intercepted
    request (one to which fault rules or observers apply) has made progress although no bytes arrived. The caller then writes the output,
    and checks `needs_cluster`.
    """

    def __init__(
        self, view: AddressView, interception: Interception | None = None, number: int = 0, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._view = view
        self._interception = interception
        self._number = number
        self._on_change = on_change
        self._in_flight_requests: deque[_InFlightRequest] = deque()
        self._frames_left = 0
        """How many more frames the current call may process; see GATEWAY_FRAMES_PER_TURN."""
        self.needs_turn = False
        """Whether frames wait until the caller calls `resume`, in the next turn of the event loop. It should read nothing before."""
        self._bare_tokens = 0
        self._bare_mechanism = ""
        self._to_client: list[Buffer] = []
        self._to_cluster: list[Buffer] = []
        self._requests = FrameStream(self._request, self._take_request, limits.GATEWAY_REQUEST_BYTES)
        self._responses = FrameStream(self._response, self._take_response, limits.NODE_RESPONSE_BYTES)
        self._pending: asyncio.Task[Reply] | None = None
        """The task that computes the reply to an intercepted request; the client's next request waits for its end."""
        self._rewriting: Steps[list[Buffer]] | None = None
        """The steps that rewrite the response to the oldest request; None if no response is being rewritten."""
        self._rewriting_bytes = 0
        self._work: Callable[[], Any] | None = None
        self._result: Any = None
        self._failure: str | None = None
        """The text of the ProtocolError that `compute` caught. The error itself is not stored: its traceback refers to this object, which
        would be a reference cycle."""
        self._intercepted: dict[InterceptedRequest, None] = {}
        self._cluster_is_lost = False
        self._is_fed = False
        """Whether `from_client` or `from_cluster` is processing bytes. The caller of these methods takes the output afterwards, so
        `on_change` is not called."""
        self.ends = False
        """Whether the client's connection must be closed, because an error, real or scripted for a test, requires it."""

    def release(self) -> None:
        """Drop the references to the owner of this object, because the client's connection has ended. Requests that a fault rule (an error
        scripted for a test) holds back may still continue.
        """
        self._on_change = lambda: None
        self._requests.release()
        self._responses.release()

    @property
    def is_full(self) -> bool:
        """Whether the caller should pause reading from the client: too many requests in flight, or too many bytes behind one that waits."""
        waits_behind = self._requests.is_waiting and self._requests.held_bytes >= limits.READ_CHUNK_BYTES
        return waits_behind or len(self._in_flight_requests) >= limits.GATEWAY_IN_FLIGHT

    @property
    def is_rewriting(self) -> bool:
        """Whether a large response is being rewritten, so that the caller should call `rewrite_more` before it reads more from
        the cluster.
        """
        return self._rewriting is not None

    @property
    def needs_cluster(self) -> bool:
        """Whether bytes are to be sent to the cluster, perhaps in the next turn, or a pending intercepted request (one to which fault rules
        or observers apply) needs the cluster. If so, the connection to the cluster has to stay open although the client has disconnected.
        """
        return bool(self._intercepted or self._to_cluster or self.needs_turn)

    @property
    def is_held(self) -> bool:
        """Whether a fault rule (an error scripted for a test) holds back a request of this connection, or its response."""
        return (self._pending is not None or bool(self._intercepted)) and not self._in_flight_requests

    def lose_cluster(self) -> None:
        """Fail all pending requests that were intercepted (to which fault rules or observers apply), because the connection to the cluster
        has ended."""
        self._cluster_is_lost = True
        for intercepted in list(self._intercepted):
            intercepted.failed()

    @property
    def held_bytes(self) -> int:
        """The number of bytes that this connection stores: incomplete frames, and a response that is being rewritten."""
        return self._requests.held_bytes + self._responses.held_bytes + self._rewriting_bytes

    def from_client(self, data: Buffer) -> None:
        """Process bytes received from the client. Raises ProtocolError if they are invalid; then the connection has to end."""
        self._begin()
        try:
            self._requests.feed(data, self._to_cluster)
        finally:
            self._is_fed = False

    def from_cluster(self, data: Buffer) -> None:
        """Process bytes received from the cluster. Raises ProtocolError if they are invalid; then the connection has to end."""
        self._begin()
        try:
            self._responses.feed(data, self._to_client)
            self._requests.resume(self._to_cluster)
        finally:
            self._is_fed = False

    def resume(self) -> None:
        """Continue with the frames that wait: in the next turn of the event loop (`needs_turn`), or when `on_change` has reported progress
        of an intercepted request. Raises ProtocolError for an invalid frame; then the connection has to end."""
        self._begin()
        self.needs_turn = False
        try:
            self._responses.resume(self._to_client)
            self._requests.resume(self._to_cluster)
        finally:
            self._is_fed = False

    def _begin(self) -> None:
        self._is_fed = True
        self._frames_left = limits.GATEWAY_FRAMES_PER_TURN

    @property
    def has_work(self) -> bool:
        """Whether `compute` (the decoding or encoding of a large response) has to be called before `rewrite_more`."""
        return self._work is not None

    def compute(self) -> None:
        """Decode or encode the large response that is being rewritten. Any thread may call this. If the response is invalid, the next call
        of `rewrite_more` raises the ProtocolError."""
        work, self._work = self._work, None
        assert work is not None
        try:
            self._result = work()
        except ProtocolError as error:
            self._failure = str(error)

    def rewrite_more(self) -> None:
        """Continue to rewrite a large response, with its next part. Raises ProtocolError if the response is invalid; then the connection
        has to end."""
        self._rewrite()
        if self._rewriting is None:
            self.from_cluster(b"")

    def take_to_client(self) -> list[Buffer]:
        """Return the buffers to write to the client now, in order, and forget them."""
        out = self._to_client
        if out:
            self._to_client = []
        return out

    def take_to_cluster(self) -> list[Buffer]:
        """Return the buffers to write to the cluster now, in order, and forget them."""
        out = self._to_cluster
        if out:
            self._to_cluster = []
        return out

    # --- requests --------------------------------------------------------------------------------------------------------------

    def _request(self, buf: memoryview, start: int, end: int, size: int) -> FrameDecision:
        if self._pending is not None or self.ends or len(self._in_flight_requests) >= limits.GATEWAY_IN_FLIGHT:
            return FrameDecision.WAIT
        self._frames_left -= 1
        if self._frames_left < 0:
            self.needs_turn = True
            return FrameDecision.WAIT
        if self._bare_tokens:
            self._bare_tokens -= 1
            in_flight = _InFlightRequest(-1, 0, 0)
            in_flight.is_bare, in_flight.mechanism = True, self._bare_mechanism
            self._in_flight_requests.append(in_flight)
            return FrameDecision.PASS
        if end - start < _REQUEST.size:
            return _more(end - start, size, "request")
        api_key, version, correlation_id = _REQUEST.unpack_from(buf, start)
        if api_key == ApiKey.SASL_HANDSHAKE:
            if size > limits.LOG_IN_BYTES:
                raise FrameTooLarge(size, limits.LOG_IN_BYTES)
            return FrameDecision.COLLECT
        if self._interception is not None and self._interception.must_decode(api_key, version):
            return FrameDecision.WAIT if self._in_flight_requests or self._responses.in_frame else FrameDecision.COLLECT
        if api_key == ApiKey.PRODUCE:
            acks = acks_of(buf[start:end], version)
            if acks is None:
                return _more(end - start, size, "Produce request")
            if acks == 0:
                return FrameDecision.PASS
        elif is_rewritten(api_key, version) and not is_understood(api_key, version) and api_key != ApiKey.API_VERSIONS:
            raise UnsupportedVersion(api_key, version, correlation_id)
        self._in_flight_requests.append(_InFlightRequest(api_key, version, correlation_id))
        return FrameDecision.PASS

    def _take_request(self, frame: memoryview) -> None:
        self._frames_left -= len(frame) // _BYTES_OF_A_FRAME
        api_key, version, correlation_id = _REQUEST.unpack_from(frame)
        in_flight = _InFlightRequest(api_key, version, correlation_id)
        if api_key == ApiKey.SASL_HANDSHAKE:
            in_flight.mechanism = decode_request(frame).body.mechanism
        elif self._interception is not None and self._interception.must_decode(api_key, version):
            request = self._interception.decode_if_matched(frame, self._number)
            if request is not None:
                self._intercept(self._interception, request, frame)
                return
        if api_key == ApiKey.PRODUCE and acks_of(frame, version) == 0:  # no rule matches it, or the rule was removed while it arrived
            self._to_cluster += sized(frame)
            return
        self._in_flight_requests.append(in_flight)
        self._to_cluster += sized(frame)

    # --- interception ----------------------------------------------------------------------------------------------------------

    def _intercept(self, interception: Interception, request: Request, frame: memoryview) -> None:
        intercepted = InterceptedRequest(request, frame, self._ask, self._over, interception.decoding)
        self._intercepted[intercepted] = None
        reply = interception.answer(intercepted, self._number, len(frame))
        if isinstance(reply, asyncio.Task):
            self._pending = reply
            reply.add_done_callback(self._finished)
        else:
            self._reply(reply)

    def _ask(self, intercepted: InterceptedRequest, frame: memoryview) -> None:
        if self._cluster_is_lost:
            raise CloseConnection("the cluster has closed its connection")
        header = intercepted.request.header
        if intercepted.expects_response:
            in_flight = _InFlightRequest(header.api_key, header.api_version, header.correlation_id)
            in_flight.intercepted, in_flight.collected = intercepted, True
            self._in_flight_requests.append(in_flight)
        self._to_cluster += sized(frame)
        self._changed()

    def _over(self, intercepted: InterceptedRequest) -> None:
        self._intercepted.pop(intercepted, None)
        self._changed()

    def _finished(self, pending: asyncio.Task[Reply]) -> None:
        self._pending = None
        self._reply(CLOSE if pending.cancelled() else pending.result())
        self._changed()

    def _changed(self) -> None:
        if not self._is_fed:
            self._on_change()

    def _reply(self, reply: Reply) -> None:
        if isinstance(reply, list):
            self._to_client += reply
        if isinstance(reply, Action | FinalResponse):
            self.ends = True

    # --- responses -------------------------------------------------------------------------------------------------------------

    def _response(self, buf: memoryview, start: int, end: int, size: int) -> FrameDecision:
        if not self._in_flight_requests:
            raise ProtocolError("the cluster sent a response without a request")
        if self._rewriting is not None:
            return FrameDecision.WAIT
        self._frames_left -= 1
        if self._frames_left < 0:
            self.needs_turn = True
            return FrameDecision.WAIT
        in_flight = self._in_flight_requests[0]
        if not in_flight.is_bare:
            if end - start < _CORRELATION_ID.size:
                _refuse_tls(size, _TLS_ALERTS)
                return _more(end - start, size, "response")
            (correlation_id,) = _CORRELATION_ID.unpack_from(buf, start)
            if correlation_id != in_flight.correlation_id:
                _refuse_tls(size, _TLS_ALERTS | _TLS_HANDSHAKES)
                raise ProtocolError(f"the cluster answered request {correlation_id} instead of {in_flight.correlation_id}")
            if in_flight.collected:
                return FrameDecision.COLLECT
        elif in_flight.mechanism == _BEARER and size:
            self._bare_tokens = 1
        self._in_flight_requests.popleft()
        return FrameDecision.PASS

    def _take_response(self, frame: memoryview) -> None:
        self._frames_left -= len(frame) // _BYTES_OF_A_FRAME
        in_flight = self._in_flight_requests[0]
        if in_flight.intercepted is not None:
            self._in_flight_requests.popleft()
            in_flight.intercepted.answered(frame, self._view)
            return
        if in_flight.mechanism is not None:
            self._in_flight_requests.popleft()
            self._end_handshake(in_flight, in_flight.mechanism, frame)
            return
        self._rewriting = rewritten(in_flight.api_key, in_flight.version, frame, self._view)
        self._rewriting_bytes = len(frame)
        self._rewrite()

    def _rewrite(self) -> None:
        """Rewrite the next part of a response. Its request stays the oldest pending one until the response is complete, so no later
        response is sent before it. Raises ProtocolError for an invalid response."""
        steps, self._rewriting = self._rewriting, None
        assert steps is not None
        if self._failure is not None:
            raise ProtocolError(self._failure)
        try:
            for _ in range(limits.GATEWAY_STEPS):
                result, self._result = self._result, None
                self._work = steps.send(result)
                if self._work is not None:
                    break
        except StopIteration as done:
            self._in_flight_requests.popleft()
            self._rewriting_bytes = 0
            self._to_client += done.value
        else:
            self._rewriting = steps

    def _end_handshake(self, in_flight: _InFlightRequest, mechanism: str, frame: memoryview) -> None:
        _, response, changed = run_steps(decoded(in_flight.api_key, in_flight.version, frame, self._view))
        if mechanism == GSSAPI and not response.error_code:
            peer_logger.warning(
                "Refused GSSAPI: a Kerberos ticket is for the host that the client connects to, which is this gateway and not the "
                "broker. Use PLAIN, SCRAM or OAUTHBEARER, or connect to the cluster without the gateway"
            )
            response.error_code, changed = ErrorCode.UNSUPPORTED_SASL_MECHANISM, True
        elif in_flight.version == 0 and not response.error_code:
            tokens = _BARE_TOKENS.get(mechanism)
            if tokens is None:
                raise ProtocolError(f"SaslHandshake version 0 with the mechanism {shown(mechanism)}, whose tokens the gateway cannot count")
            self._bare_tokens, self._bare_mechanism = tokens, mechanism
        again = encode_response(in_flight.api_key, in_flight.version, in_flight.correlation_id, response) if changed else sized(frame)
        self._to_client += again


def _refuse_tls(size: int, records: Set[int]) -> None:
    """Raise ProtocolError if `size`, the first four bytes of a response read as a number, is the beginning of one of the TLS `records`. A
    broker with TLS answers a plaintext request with a TLS alert, which is shorter than a response's header."""
    if size & ~0xFF in records:
        raise ProtocolError(
            "the cluster's listener uses TLS, and the gateway does not: name a file with security.protocol=SSL or SASL_SSL by --to-config"
        )


def _more(have: int, size: int, what: str) -> FrameDecision:
    """Return MORE, because the first `have` bytes of a frame of `size` bytes do not contain its whole header. `what` names the frame in the
    error. Raises MalformedHeader if the frame has no more bytes, or if `have` exceeds the limit for a header."""
    if have >= size or have > limits.GATEWAY_HEAD_BYTES:
        raise MalformedHeader(f"{what} of {size} bytes")
    return FrameDecision.MORE

"""A connection of a secured listener: TLS first, then SASL authentication, then normal requests.

Invariants:
* The connection counts towards the connection limits from its accept on, before its handshake. An unfinished handshake times out. If a
  quota delays the connection, its handshake starts after the delay, because the handshake is the most expensive step.
* A failed TLS handshake closes the connection at once; only the response to failed SASL authentication is delayed.
* Before authentication no request reaches a handler, except ApiVersions. After authentication, if the SASL session does not expire, the
  connection's `Session` calls the dispatcher of requests directly, as on a connection without SASL.

Source: KAFKA Selector, KafkaChannel, Processor.processCompletedReceives.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ottla.broker.api.context import Listener, Peer
from ottla.broker.api.error_response import error_response
from ottla.broker.api.k18_api_versions import is_valid
from ottla.broker.api.reply import CLOSE, FinalResponse, Reply
from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.core.principal import ANONYMOUS, USER, Principal
from ottla.broker.net.connection import Connection, SharedConnectionState
from ottla.broker.net.listener_authentication import ListenerAuthentication
from ottla.broker.net.session import PendingReply
from ottla.broker.security.sasl import MIN_BETWEEN_MS, AfterStep, ClockReading, ListenerSasl, SaslExchange, SaslSession, Step
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.wire import Buffer

if TYPE_CHECKING:
    from ottla.broker.security.tls import ListenerTls

_HANDSHAKE = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")

peer_logger = logging.getLogger(PEERS)


class SecuredConnection(Connection):
    """One client connection of a secured listener. `at_listener` is the listener's security."""

    def __init__(self, shared: SharedConnectionState, listener: Listener, at_listener: ListenerAuthentication) -> None:
        super().__init__(shared, listener)
        self._authentication = at_listener
        self._awaits_tls = at_listener.tls is not None
        self._handshake: asyncio.Task[None] | None = None
        self._early_data: list[bytes] = []
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the new connection towards the limits, and start its TLS handshake or, without TLS, its SASL authentication."""
        super().connection_made(transport)
        if self._transport.is_closing():
            return
        if not self._awaits_tls:
            self._require_sasl()
            return
        self._transport.pause_reading()  # the next bytes belong to the TLS handshake
        if self._throttle_end is None:
            self._begin_handshake()

    def _begin_handshake(self) -> None:
        assert self._authentication.tls is not None
        self._handshake = asyncio.get_running_loop().create_task(self._perform_handshake(self._authentication.tls))

    def _throttled(self) -> None:
        """End the delay that a quota has imposed: start the TLS handshake if it has not started yet, otherwise handle requests again."""
        super()._throttled()
        if self._awaits_tls and self._handshake is None and not self._transport.is_closing():
            self._begin_handshake()

    def data_received(self, data: bytes) -> None:
        """Process bytes from the client. Store them if the TLS handshake has not started yet, or has ended but its end is not processed
        yet."""
        if not self._awaits_tls:
            super().data_received(data)
        else:
            self._early_data.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Release the connection, which has ended. Requests in its last bytes are handled first, because TLS reports these bytes and the
        end together. Only the first call releases it; later calls do nothing."""
        if self._is_lost:
            return
        if error is None and self._session.runnable:
            asyncio.get_running_loop().call_soon(self.connection_lost, None)
            self._session.run()
            self._session.take_output()
            return
        self._is_lost = True
        super().connection_lost(error)

    def stop_reading(self) -> None:
        """Close the connection at once if its handshake is not complete; otherwise stop gracefully."""
        if not self._awaits_tls:
            super().stop_reading()
        else:
            self.abort()

    async def _perform_handshake(self, tls: ListenerTls) -> None:
        plain, host = self._transport, self.peer.host if self.peer is not None else ""
        if plain.is_closing():
            return
        if self._early_data:  # uvloop reads in a new connection's first turn even if reading is paused
            asyncio.get_running_loop().call_soon(_hand_over, plain, b"".join(self._early_data))
            self._early_data = []
        try:
            with tls.handshake(plain) as context:
                transport = await asyncio.get_running_loop().start_tls(
                    plain,
                    self,
                    context,
                    server_side=True,
                    ssl_handshake_timeout=limits.TLS_HANDSHAKE_MS / 1000,
                    ssl_shutdown_timeout=limits.LINGER_MS / 1000,
                )
            if transport is None or transport.is_closing():
                raise ConnectionResetError("the client closed the connection")
            assert self.peer is not None
            self.peer.principal = Principal(USER, tls.principal_name(transport.get_extra_info("ssl_object").getpeercert(True)))
        except (OSError, ValueError) as error:
            if isinstance(error, ssl.SSLError | ValueError):
                peer_logger.info("Failed authentication with %s (SSL handshake failed: %s)", host, shown(_reason(error)))
            plain.abort()
            self.connection_lost(error)
            return
        self._awaits_tls = False
        if self._is_lost:
            return
        self._transport = cast(asyncio.Transport, TlsTransport(transport, plain))
        self._transport.set_write_buffer_limits(limits.WRITE_HIGH_BYTES, limits.WRITE_LOW_BYTES)
        self.last_active_ms = self._shared.mono_ms()
        self._require_sasl()
        early, self._early_data = self._early_data, []
        for data in early:
            self.data_received(data)

    def _require_sasl(self) -> None:
        if self._authentication.sasl is not None and self.peer is not None:
            self.peer.principal = ANONYMOUS
            _SaslGate(self, self._shared, self.peer, self._authentication.sasl).install()

    def _close(self) -> None:
        """Close a TLS connection with a close_notify alert, after the last response."""
        if not isinstance(self._transport, TlsTransport):
            super()._close()
        elif not self._lingers and not self._transport.is_closing():
            self._lingers = True
            self._lingered()


class TlsTransport:
    """A TLS transport over the TCP transport `plain`, with those transport methods that `Connection` uses.

    Output is encrypted at once. Small buffers are joined and large ones are split, so that `pause_writing` is called in time when the peer
    does not read. The size of the unsent output includes that of `plain`. `pause_reading` pauses both transports, because asyncio's TLS
    would otherwise notice the end of the connection and drop data that it has decrypted but not delivered.
    """

    def __init__(self, tls: asyncio.Transport, plain: asyncio.Transport) -> None:
        self._tls, self._plain = tls, plain
        self._is_paused = False
        self.set_write_buffer_limits = tls.set_write_buffer_limits
        self.is_closing, self.abort = tls.is_closing, tls.abort

    def pause_reading(self) -> None:
        """Stop delivering the peer's data to the connection, and stop reading from TCP."""
        self._is_paused = True
        self._tls.pause_reading()
        self._plain.pause_reading()

    def resume_reading(self) -> None:
        """Deliver received data to the connection again. TLS delivers its decrypted data first; TCP is read again from the next iteration
        of the event loop on."""
        self._is_paused = False
        self._tls.resume_reading()
        asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self._is_paused:
            self._plain.resume_reading()

    def close(self) -> None:
        """Close the transport after the unsent output is written and the peer has closed its side."""
        self._plain.resume_reading()
        self._tls.close()

    def writelines(self, buffers: Iterable[Buffer]) -> None:
        """Write the buffers in order; do nothing if the connection is closing."""
        if self._tls.is_closing() or self._plain.is_closing():
            return
        small: list[Buffer] = []
        for buffer in buffers:
            if len(buffer) < limits.TLS_WRITE_BYTES:
                small.append(buffer)
                continue
            if small:
                self._tls.write(b"".join(small))
                small = []
            view = memoryview(buffer)
            for at in range(0, len(view), limits.TLS_WRITE_BYTES):
                self._tls.write(view[at : at + limits.TLS_WRITE_BYTES])
        if small:
            self._tls.write(b"".join(small))

    def get_write_buffer_size(self) -> int:
        """Return the number of written bytes that the operating system has not accepted yet."""
        return self._tls.get_write_buffer_size() + self._plain.get_write_buffer_size()


def _hand_over(plain: asyncio.Transport, data: bytes) -> None:
    """Pass bytes that arrived before the handshake to the TLS protocol, which is now the protocol of `plain`."""
    tls = cast(Any, plain.get_protocol())  # a BufferedProtocol, which uvloop's types do not say
    while data:
        buffer = tls.get_buffer(len(data))
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        tls.buffer_updated(count)
        data = data[count:]


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)


class _SaslGate:
    """A filter between a connection's session and the dispatcher of requests. It performs SASL authentication; until the client is
    authenticated, it rejects all requests except ApiVersions and those of SASL."""

    def __init__(self, connection: SecuredConnection, shared: SharedConnectionState, peer: Peer, at_listener: ListenerSasl) -> None:
        self._connection, self._shared, self._peer, self._sasl, self._session = connection, shared, peer, at_listener, connection.session
        self._cancel_timer: Callable[[], None] = lambda: None
        self._exchange: SaslExchange | None = SaslExchange(at_listener, shared.dispatcher.decode, error_response, is_valid)
        self._sasl_session: SaslSession | None = None
        self._reauthentication_ms: int | None = None

    def install(self) -> None:
        """Become the session's handler: until authentication, reject every request except ApiVersions and those of SASL."""
        self._peer.must_authenticate = True
        self._session.serve(self._handle, self._try_fast_path, self._sasl.max_receive_bytes)
        self._start_timeout()

    def _start_timeout(self) -> None:
        shared = self._shared
        timer = shared.timers.schedule(shared.mono_ms() + limits.LOG_IN_MS, self._timed_out)
        self._cancel_timer = self._peer.on_closed[self] = timer.cancel

    def _timed_out(self) -> None:
        if not self._connection.idle:  # the client waits for this broker: for a response, or for the end of a throttle time
            self._start_timeout()
            return
        peer_logger.info("Failed authentication with %s (it took more than %d ms)", self._peer.host, limits.LOG_IN_MS)
        self._connection.abort()

    def _handle(self, frame: Buffer) -> Reply | PendingReply:
        if self._exchange is None:
            assert self._sasl_session is not None
            now_ms = self._shared.mono_ms()
            if bytes(frame[:2]) == _HANDSHAKE and self._may_reauthenticate(now_ms):
                self._reauthentication_ms = now_ms
                self._exchange = SaslExchange(self._sasl, self._shared.dispatcher.decode, error_response, is_valid, self._sasl_session)
            elif self._is_expired(now_ms):
                peer_logger.info(
                    "Closing a connection of %s whose session has expired (connections.max.reauth.ms or its token's expiry)",
                    self._peer.host,
                )
                return CLOSE
            else:
                return self._shared.dispatcher.handle(self._peer, frame)
        clock = self._shared.clock
        step = self._exchange.take(frame, ClockReading(clock.now_ms(), clock.mono_ms()))
        if self._exchange.done is not None:
            self._authenticated(self._exchange.done)
        if step.end is not AfterStep.CONTINUE:
            return self._refuse(step)
        return self._shared.dispatcher.handle(self._peer, frame) if step.to_dispatcher else step.response

    def _try_fast_path(self, data: bytes, at: int) -> tuple[Reply, int] | None:
        if self._exchange is not None or self._is_expired(self._shared.mono_ms()):
            return None
        return self._shared.dispatcher.try_fast_path(self._peer, data, at)

    def _authenticated(self, session: SaslSession) -> None:
        self._sasl_session, self._exchange = session, None
        self._cancel_timer()
        self._peer.on_closed.pop(self, None)
        if session.user is None:  # Kafka completes the authentication and maps the principal to a name when the first request arrives
            self._session.serve(lambda _frame: CLOSE, lambda _data, _at: None, self._shared.max_request_bytes)
            return
        self._peer.must_authenticate = False
        self._peer.principal, self._peer.token_authenticated = Principal(USER, session.user), session.by_token
        dispatcher, max_bytes = self._shared.dispatcher, self._shared.max_request_bytes
        if session.expires_mono_ms is None:
            self._session.serve(partial(dispatcher.handle, self._peer), partial(dispatcher.try_fast_path, self._peer), max_bytes)
        else:
            self._session.serve(self._handle, self._try_fast_path, max_bytes)

    def _is_expired(self, now_ms: int) -> bool:
        session = self._sasl_session
        return session is not None and session.expires_mono_ms is not None and now_ms > session.expires_mono_ms

    def _may_reauthenticate(self, now_ms: int) -> bool:
        if self._sasl_session is None or self._sasl_session.expires_mono_ms is None:
            return False
        return self._reauthentication_ms is None or now_ms - self._reauthentication_ms >= MIN_BETWEEN_MS

    def _refuse(self, step: Step) -> Reply | PendingReply:
        peer_logger.info("Failed authentication with %s (%s)", self._peer.host, shown(step.why))
        last = FinalResponse(step.response) if step.response else CLOSE
        if step.end is AfterStep.CLOSE or not self._sasl.delay_ms:
            return last
        later: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        timer = self._shared.timers.schedule(self._shared.mono_ms() + self._sasl.delay_ms, partial(later.set_result, last))
        self._peer.on_closed[later] = timer.cancel
        return later

"""A connection of a listener that asks who its peer is: first TLS, then the log-in, then what any connection is.

Rules that hold inside:
- It is counted and limited when it is accepted, as any other: a handshake that never ends is one connection, and ends with its time. One
  that quotas hold back shakes no hands before its wait is over: that costs the most.
- A handshake that fails closes at once and without an answer; only log-ins are refused late.
- Until the log-in is done no request reaches a handler but ApiVersions; after it, where a log-in is good for good, nothing of this is left
  between the session and its handlers.

Source: KAFKA Selector, KafkaChannel, Processor.processCompletedReceives.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ottla.broker.api.k18_api_versions import is_valid
from ottla.broker.api.reply import CLOSE, Buffer, LastWords, Reply
from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.core.principal import ANONYMOUS, USER, Principal
from ottla.broker.faults.answers import refusal
from ottla.broker.net.connection import Connection
from ottla.broker.security.sasl import MIN_BETWEEN_MS, AfterStep, LogIn, Moment, SaslExchange, Step
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.context import Listener, Peer
    from ottla.broker.net.connection import Shared
    from ottla.broker.net.listener_authentication import ListenerAuthentication
    from ottla.broker.net.session import PendingReply
    from ottla.broker.security.sasl import ListenerSasl
    from ottla.broker.security.tls import ListenerTls

_HANDSHAKE = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")

peer_logger = logging.getLogger(PEERS)


class SecuredConnection(Connection):
    """`at_listener` is the listener's."""

    def __init__(self, shared: Shared, listener: Listener, at_listener: ListenerAuthentication) -> None:
        super().__init__(shared, listener)
        self._lock = at_listener
        self._asks_for_tls = at_listener.tls is not None
        self._shaking_hands: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counted, and then asked for more before it is served."""
        super().connection_made(transport)
        if self._transport.is_closing():
            return
        if not self._asks_for_tls:
            self._ask_for_log_in()
            return
        self._transport.pause_reading()  # what comes now is for the handshake
        if self._throttle_end is None:
            self._begin_handshake()

    def _begin_handshake(self) -> None:
        assert self._lock.tls is not None
        self._shaking_hands = asyncio.get_running_loop().create_task(self._shake_hands(self._lock.tls))

    def _throttled(self) -> None:
        """A wait is over: that before the handshake, or one of its quotas."""
        super()._throttled()
        if self._asks_for_tls and self._shaking_hands is None and not self._transport.is_closing():
            self._begin_handshake()

    def data_received(self, data: bytes) -> None:
        """What comes before TLS has its place is TLS's; what comes in the very turn in which the handshake ends waits for its end."""
        if not self._asks_for_tls:
            super().data_received(data)
        else:
            self._early.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Told once, whoever tells it. TLS tells of the end with the bytes in front of it: these are handled first."""
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
        """Who has not been let in is not waited for."""
        if not self._asks_for_tls:
            super().stop_reading()
        else:
            self.abort()

    async def _shake_hands(self, tls: ListenerTls) -> None:
        plain, host = self._transport, self.peer.host if self.peer is not None else ""
        if plain.is_closing():
            return
        if self._early:  # uvloop reads before a new connection's first turn is over, whatever that says
            asyncio.get_running_loop().call_soon(_hand_over, plain, b"".join(self._early))
            self._early = []
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
                raise ConnectionResetError("it hung up")
            assert self.peer is not None
            self.peer.principal = Principal(USER, tls.principal_name(transport.get_extra_info("ssl_object").getpeercert(True)))
        except (OSError, ValueError) as error:
            if isinstance(error, ssl.SSLError | ValueError):
                peer_logger.info("Failed authentication with %s (SSL handshake failed: %s)", host, shown(_reason(error)))
            plain.abort()
            self.connection_lost(error)
            return
        self._asks_for_tls = False
        if self._is_lost:
            return
        self._transport = cast(asyncio.Transport, TlsTransport(transport, plain))
        self._transport.set_write_buffer_limits(limits.WRITE_HIGH_BYTES, limits.WRITE_LOW_BYTES)
        self.last_active_ms = self._shared.mono_ms()
        self._ask_for_log_in()
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)

    def _ask_for_log_in(self) -> None:
        if self._lock.sasl is not None and self.peer is not None:
            self.peer.principal = ANONYMOUS
            _LogInGate(self, self._shared, self.peer, self._lock.sasl).close()

    def _close(self) -> None:
        """With TLS the peer is told of the end by TLS itself, behind the last answer."""
        if not isinstance(self._transport, TlsTransport):
            super()._close()
        elif not self._lingers and not self._transport.is_closing():
            self._lingers = True
            self._lingered()


class TlsTransport:
    """One end of TLS over `plain`, as a connection uses a transport.

    What is written is encrypted at once: small pieces together, and large ones cut, so that TLS stops taking more when the peer reads
    nothing. Unsent is what either of the two holds. Who pauses one of them pauses both: else TLS would see the peer's end, and drop what it
    has read before it and not yet given.
    """

    def __init__(self, tls: asyncio.Transport, plain: asyncio.Transport) -> None:
        self._tls, self._plain = tls, plain
        self._is_paused = False
        self.set_write_buffer_limits = tls.set_write_buffer_limits
        self.is_closing, self.abort = tls.is_closing, tls.abort

    def pause_reading(self) -> None:
        """Nothing more is given."""
        self._is_paused = True
        self._tls.pause_reading()
        self._plain.pause_reading()

    def resume_reading(self) -> None:
        """What TLS holds is given first, in the loop's next turn."""
        self._is_paused = False
        self._tls.resume_reading()
        asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self._is_paused:
            self._plain.resume_reading()

    def close(self) -> None:
        """After what is unsent; the peer's own end is waited for."""
        self._plain.resume_reading()
        self._tls.close()

    def writelines(self, buffers: Iterable[Buffer]) -> None:
        """In order; to who is gone nothing."""
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
        """Bytes that the system has not taken."""
        return self._tls.get_write_buffer_size() + self._plain.get_write_buffer_size()


def _hand_over(plain: asyncio.Transport, data: bytes) -> None:
    """Give TLS, which has taken its place meanwhile, what came before."""
    tls = cast(Any, plain.get_protocol())  # a BufferedProtocol; uvloop's does not say so
    while data:
        buffer = tls.get_buffer(len(data))
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        tls.buffer_updated(count)
        data = data[count:]


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)


class _LogInGate:
    """Stands between the session of a connection and the dispatcher."""

    def __init__(self, connection: SecuredConnection, shared: Shared, peer: Peer, at_listener: ListenerSasl) -> None:
        self._connection, self._shared, self._peer, self._lock, self._session = connection, shared, peer, at_listener, connection.session
        self._cancel_timer: Callable[[], None] = lambda: None
        self._exchange: SaslExchange | None = SaslExchange(at_listener, refusal, is_valid)
        self._login: LogIn | None = None
        self._began_again_ms: int | None = None

    def close(self) -> None:
        """Nobody passes who has not logged in."""
        self._peer.has_to_log_in = True
        self._session.serve(self._handle, self._at_once, self._lock.max_receive_bytes)
        self._give_it_time()

    def _give_it_time(self) -> None:
        shared = self._shared
        timer = shared.timers.schedule(shared.mono_ms() + limits.LOG_IN_MS, self._took_too_long)
        self._cancel_timer = self._peer.on_closed[self] = timer.cancel

    def _took_too_long(self) -> None:
        if not self._connection.idle:  # it waits for this broker: for an answer, or for the end of a quota's pause
            self._give_it_time()
            return
        peer_logger.info("Failed authentication with %s (it took more than %d ms)", self._peer.host, limits.LOG_IN_MS)
        self._connection.abort()

    def _handle(self, frame: Buffer) -> Reply | PendingReply:
        if self._exchange is None:
            assert self._login is not None
            now_ms = self._shared.mono_ms()
            if bytes(frame[:2]) == _HANDSHAKE and self._may_begin_again(now_ms):
                self._began_again_ms = now_ms
                self._exchange = SaslExchange(self._lock, refusal, is_valid, self._login)
            elif self._is_over(now_ms):
                peer_logger.info(
                    "Closing a connection of %s whose log-in is over (connections.max.reauth.ms, or its token's end)", self._peer.host
                )
                return CLOSE
            else:
                return self._shared.dispatcher.handle(self._peer, frame)
        clock = self._shared.clock
        step = self._exchange.take(frame, Moment(clock.now_ms(), clock.mono_ms()))
        if self._exchange.done is not None:
            self._let_in(self._exchange.done)
        if step.end is not AfterStep.GOES_ON:
            return self._refuse(step)
        return self._shared.dispatcher.handle(self._peer, frame) if step.passes else step.answer

    def _at_once(self, data: bytes, at: int) -> tuple[Reply, int] | None:
        if self._exchange is not None or self._is_over(self._shared.mono_ms()):
            return None
        return self._shared.dispatcher.at_once(data, at)

    def _let_in(self, login: LogIn) -> None:
        self._login, self._exchange = login, None
        self._cancel_timer()
        self._peer.on_closed.pop(self, None)
        if login.user is None:  # Kafka answers the log-in, and looks for a name when the first request comes
            self._session.serve(lambda _frame: CLOSE, lambda _data, _at: None, self._shared.max_request_bytes)
            return
        self._peer.has_to_log_in = False
        self._peer.principal, self._peer.by_token = Principal(USER, login.user), login.by_token
        dispatcher, max_bytes = self._shared.dispatcher, self._shared.max_request_bytes
        if login.expires_mono_ms is None:
            self._session.serve(lambda frame: dispatcher.handle(self._peer, frame), dispatcher.at_once, max_bytes)
        else:
            self._session.serve(self._handle, self._at_once, max_bytes)

    def _is_over(self, now_ms: int) -> bool:
        login = self._login
        return login is not None and login.expires_mono_ms is not None and now_ms > login.expires_mono_ms

    def _may_begin_again(self, now_ms: int) -> bool:
        if self._login is None or self._login.expires_mono_ms is None:
            return False
        return self._began_again_ms is None or now_ms - self._began_again_ms >= MIN_BETWEEN_MS

    def _refuse(self, step: Step) -> Reply | PendingReply:
        peer_logger.info("Failed authentication with %s (%s)", self._peer.host, shown(step.why))
        last = LastWords(step.answer) if step.answer else CLOSE
        if step.end is AfterStep.CLOSES or not self._lock.delay_ms:
            return last
        later: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        timer = self._shared.timers.schedule(self._shared.mono_ms() + self._lock.delay_ms, partial(later.set_result, last))
        self._peer.on_closed[later] = timer.cancel
        return later

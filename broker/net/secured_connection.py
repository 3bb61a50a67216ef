"""A connection of a listener that asks who its peer is: first the log-in, then what any connection is.

Rules that hold inside:
- It is counted and limited when it is accepted, as any other.
- Until the log-in is done no request reaches a handler but ApiVersions; after it, where a log-in is good for good, nothing of this is left
  between the session and its handlers.

Source: KAFKA Selector, KafkaChannel, Processor.processCompletedReceives.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.api.k18_api_versions import is_valid
from ottla.broker.api.reply import CLOSE, Buffer, LastWords, Reply
from ottla.broker.core.peer_log import PEERS, shown
from ottla.broker.core.principal import USER, Principal
from ottla.broker.faults.answers import refusal
from ottla.broker.net.connection import Connection
from ottla.broker.security.sasl import MIN_BETWEEN_MS, AfterStep, LogIn, Moment, SaslExchange, Step
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.broker.api.context import Listener, Peer
    from ottla.broker.net.connection import Shared
    from ottla.broker.net.locks import ListenerLock
    from ottla.broker.net.session import PendingReply
    from ottla.broker.security.sasl import SaslLock

_HANDSHAKE = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")

peer_logger = logging.getLogger(PEERS)


class SecuredConnection(Connection):
    """`lock` is the listener's."""

    def __init__(self, shared: Shared, listener: Listener, lock: ListenerLock) -> None:
        super().__init__(shared, listener)
        self._lock = lock

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._lock.sasl is not None and self.peer is not None:
            _LogInGate(self, self._shared, self.peer, self._lock.sasl).close()


class _LogInGate:
    """Stands between the session of a connection and the dispatcher."""

    def __init__(self, connection: SecuredConnection, shared: Shared, peer: Peer, lock: SaslLock) -> None:
        self._shared, self._peer, self._lock, self._session = shared, peer, lock, connection.session
        self._exchange: SaslExchange | None = SaslExchange(lock, refusal, is_valid)
        self._login: LogIn | None = None
        self._began_again_ms: int | None = None

    def close(self) -> None:
        """Nobody passes who has not logged in."""
        self._session.serve(self._handle, self._at_once, self._lock.max_receive_bytes)

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

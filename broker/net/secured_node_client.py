"""A connection to a secured listener of another node: TLS first, then SASL authentication, then normal requests.

Invariants:
* No request is sent before both sides are authenticated. While a session is re-authenticated, requests wait (KIP-368).
* An authentication failure of either side is logged and followed by the usual backoff.

Source: KAFKA SaslClientAuthenticator, SslTransportLayer, NetworkClient.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from ottla.broker.core import limits
from ottla.broker.core.peer_log import PEERS
from ottla.broker.core.timers import TimerHandle
from ottla.broker.net.client_security import ClientSasl, ClientSecurity
from ottla.broker.net.node_client import NodeClient, NodeConnection
from ottla.broker.runtime.nodes.authentication import AuthenticationFailed
from ottla.broker.runtime.nodes.link import LinkBroken, Node
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.login import NotTrusted, Tokens
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest

_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 2
_RENEWED: Final = (0.85, 0.95)
"""The part of a session's lifetime after which re-authentication starts: a random number in this range, so that a cluster's sessions do not
all renew at once (SaslClientAuthenticator)."""

_CUT_OFF: Final = "the peer closed the connection during the TLS handshake: it may not use TLS, or be stopping"
_ERROR_TEXT_CHARS: Final = 500

peer_logger = logging.getLogger(PEERS)


class SecuredNodeClient(NodeClient):
    """A `NodeClient` for a secured listener; `client_security` has the TLS settings and credentials."""

    def __init__(self, node: Node, *, client_security: ClientSecurity, **others: Any) -> None:
        super().__init__(node, **others)
        self._client_security = client_security
        self._renewal: TimerHandle | None = None

    async def _reach(self, connection: NodeConnection) -> None:
        try:
            if self._client_security.tls is None:
                await super()._reach(connection)
            else:
                await self._perform_handshake(connection, self._client_security.tls.context)
            if self._client_security.sasl is not None:
                await self._authenticate(connection, self._client_security.sasl)
        except AuthenticationFailed as error:
            self._log_failure(error)
            raise

    async def _perform_handshake(self, connection: NodeConnection, context: ssl.SSLContext) -> None:
        plain = await self._network.connect(self.node.host, self.node.port, asyncio.Protocol)
        try:
            transport = await asyncio.get_running_loop().start_tls(
                plain, connection, context, server_hostname=self.node.host, ssl_handshake_timeout=limits.TLS_HANDSHAKE_MS / 1000
            )
        except ssl.SSLError as error:
            plain.abort()
            raise AuthenticationFailed(f"{self._address}: SSL handshake failed: {_reason(error)}") from error
        except OSError as error:  # the loop may end the handshake without any message
            plain.abort()
            raise ConnectionResetError(_CUT_OFF) from error
        except BaseException:
            plain.abort()
            raise
        if transport is None or transport.is_closing():
            raise ConnectionResetError(_CUT_OFF)
        connection.connection_made(transport)

    async def _authenticate(self, connection: NodeConnection, sasl: ClientSasl) -> None:
        handshake = await connection.call(SaslHandshakeRequest(sasl.mechanism), _HANDSHAKE_VERSION)
        if handshake.error_code:
            error = "not enabled in the server" if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM else "not expected there"
            raise AuthenticationFailed(
                f"{self._address}: Client SASL mechanism '{sasl.mechanism}' {error}, enabled mechanisms are {_quoted(handshake.mechanisms)}"
            )
        tokens, lifetime_ms = sasl.tokens(self.node.host), 0
        answered: bytes | None = None
        try:
            while (token := await _next_token(sasl, tokens, answered)) is not None:
                answer = await connection.call(SaslAuthenticateRequest(token), _AUTHENTICATE_VERSION)
                if answer.error_code:
                    raise AuthenticationFailed(f"{self._address}: {_quoted(answer.error_message or ErrorCode.of(answer.error_code).name)}")
                answered, lifetime_ms = bytes(answer.auth_bytes), answer.session_lifetime_ms
        except NotTrusted as error:
            raise AuthenticationFailed(f"{self._address}: {error}") from error
        if lifetime_ms > 0:
            in_ms = round(lifetime_ms * self._random.uniform(*_RENEWED))
            self._renewal = self._timers.schedule(self._clock.mono_ms() + in_ms, partial(self._renew, connection, sasl))

    def _renew(self, connection: NodeConnection, sasl: ClientSasl) -> None:
        if self._connection is connection and self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._reauthenticate(connection, sasl))

    async def _reauthenticate(self, connection: NodeConnection, sasl: ClientSasl) -> None:
        """Re-authenticate on the open connection (KIP-368). Calls made meanwhile wait. If it fails, break the connection."""
        try:
            await self._authenticate(connection, sasl)
        except LinkBroken as error:
            self._opening = None
            if isinstance(error, AuthenticationFailed):
                self._log_failure(error)
            self._break(str(error), type(error))
            return
        self._opened(connection)

    def _closed_by_peer(self, why: str) -> None:
        """Break the connection, because the peer has closed it for the reason `why`. During the connection's setup, break it only in the
        next iteration of the event loop: the peer's last response may contain a better reason, and is processed first."""
        opening = self._opening
        if opening is None:
            self._break(why)
            return
        asyncio.get_running_loop().call_soon(lambda: self._break(why) if self._opening is opening else None)

    def _break(self, why: str, kind: type[LinkBroken] = LinkBroken) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        super()._break(why, kind)

    def _log_failure(self, error: AuthenticationFailed) -> None:
        peer_logger.error("Connection to node %d failed authentication due to: %s", self.node.node_id, error)


async def _next_token(sasl: ClientSasl, tokens: Tokens, answered: bytes | None) -> bytes | None:
    """Return the next SASL token to send, after the peer's message `answered` (None: the first token). Return None if no further token is
    needed. Raises NotTrusted if the peer does not prove its identity."""
    return await _on_a_thread(partial(_next, tokens, answered)) if sasl.takes_long(answered) else _next(tokens, answered)


def _next(tokens: Tokens, answered: bytes | None) -> bytes | None:
    try:
        return next(tokens) if answered is None else tokens.send(answered)
    except StopIteration:
        return None


def _on_a_thread(work: Callable[[], bytes | None]) -> asyncio.Future[bytes | None]:
    """Run `work` on a separate thread that a stopping broker does not wait for: the work may contact a KDC that does not respond, or need a
    long computation."""
    done: Future[bytes | None] = Future()
    done.set_running_or_notify_cancel()  # it cannot be cancelled

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 # the thread ends here; the error is passed to the waiter
            done.set_exception(error)

    threading.Thread(target=run, name="log-in", daemon=True).start()
    return asyncio.wrap_future(done)


def _quoted(what: object) -> str:
    """Return `what`, a text from a peer that is not authenticated, for a log line: escaped and shortened."""
    return repr(what)[:_ERROR_TEXT_CHARS]


def _reason(error: ssl.SSLError) -> str:
    return getattr(error, "verify_message", None) or error.reason or str(error)

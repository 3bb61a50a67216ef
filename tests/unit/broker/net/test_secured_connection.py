from __future__ import annotations

import asyncio
import base64
import gc
import json
import struct
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

import pytest

from ottla.broker.api.context import Listener, Peer
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.reply import Reply
from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.principal import Principal
from ottla.broker.core.security_protocol import SecurityProtocol
from ottla.broker.core.settings_load import load
from ottla.broker.core.timers import Timers
from ottla.broker.net.connection import SharedConnectionState
from ottla.broker.net.listener_authentication import AuthenticationContext, listener_authentication
from ottla.broker.net.listeners import listeners_of
from ottla.broker.net.network import Sockets
from ottla.broker.net.server import Server
from ottla.protocol.codec import decode_request, encode_request
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.schema import Message
from ottla.protocol.wire import Buffer
from tests.support.logins import plain, secured

WHO = b"\0\0\0\3who"


class Telling:
    """A dispatcher that responds to every frame with the name of its connection's principal."""

    decode = staticmethod(decode_request)

    def handle(self, peer: Peer, frame: Buffer) -> Reply:
        return [str(peer.principal).encode() + b"\n"]

    def try_fast_path(self, peer: Peer, data: bytes, at: int) -> tuple[Reply, int] | None:
        return None


class Harness:
    def __init__(self, given: dict[str, str]) -> None:
        self.clock = VirtualClock()
        self.timers = Timers()
        settings = load(given, {}, None).settings
        listeners = listeners_of(settings)
        around = AuthenticationContext(lambda _kind, _name, _by_token: None, lambda _bits: 1, self.clock, self.timers)
        self._authentication = listener_authentication(settings, listeners, around)
        self.server = Server(Sockets(), listeners, 5)
        self.shared = SharedConnectionState(cast(Dispatcher, Telling()), self.clock, self.timers, 10_000)

    async def start(self) -> None:
        self.server.bind()
        await self.server.start(self.shared, self._authentication)

    def pass_ms(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.timers.run_due(self.clock.mono_ms())


@asynccontextmanager
async def connected(harness: Harness) -> AsyncIterator[Callable[[bytes], asyncio.Future[bytes]]]:
    """Open a connection; yield a function that sends bytes and returns a future of the next line, or of the data before the end."""
    await harness.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", harness.server.listeners[0].port)

    def ask(data: bytes) -> asyncio.Future[bytes]:
        writer.write(data)
        return asyncio.ensure_future(reader.readline())

    yield ask
    writer.close()
    harness.server.abort()


def frame(request: Message, version: int = 1) -> bytes:
    return b"".join(encode_request(request.API_KEY, version, 1, None, request))


LOG_IN = frame(SaslHandshakeRequest("PLAIN")) + frame(SaslAuthenticateRequest(plain()))


async def test_a_request_has_the_authenticated_principal() -> None:
    async with connected(Harness(secured())) as ask:
        assert (await ask(LOG_IN + WHO)).endswith(str(Principal("User", "ann")).encode() + b"\n")


async def test_the_response_to_a_failed_authentication_is_delayed_and_dropped_with_its_connection() -> None:
    harness = Harness(secured())
    async with connected(harness) as ask:
        wrong = ask(frame(SaslHandshakeRequest("PLAIN")) + frame(SaslAuthenticateRequest(plain(password="nope"))) + WHO)
        while not (held := [each for each in harness.shared.connections if not each.idle]):  # noqa: ASYNC110 # no event signals this
            await asyncio.sleep(0)
        harness.pass_ms(99)
        assert not held[0].idle
        harness.pass_ms(1)
        assert b"Invalid username or password" in await wrong


async def test_a_closed_connection_cancels_the_delayed_response() -> None:
    harness = Harness(secured())
    async with connected(harness) as ask:
        ask(frame(SaslHandshakeRequest("PLAIN")) + frame(SaslAuthenticateRequest(plain(password="nope"))))
        while all(each.idle for each in harness.shared.connections):  # noqa: ASYNC110 # no event signals this
            await asyncio.sleep(0)
        assert harness.timers.next_deadline() == harness.clock.mono_ms() + 100
    await harness.shared.until_empty()
    assert harness.timers.next_deadline() is None


@pytest.mark.parametrize("password", ["pass word", "nope"])
async def test_a_closed_connection_is_freed_without_the_garbage_collector(password: str) -> None:
    """The garbage collector runs seldom, so a reference cycle would let failed authentications fill the memory."""
    harness = Harness(secured(connection_failed_authentication_delay_ms="0"))
    gc.disable()
    try:
        async with connected(harness) as ask:
            await ask(frame(SaslHandshakeRequest("PLAIN")) + frame(SaslAuthenticateRequest(plain(password=password))) + WHO)
            connection = weakref.ref(next(iter(harness.shared.connections)))
        while harness.shared.connections:  # noqa: ASYNC110 # no event signals this
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # the transport lets go of its protocol in the next turn
        assert connection() is None
    finally:
        gc.enable()


async def test_a_session_is_valid_until_it_expires() -> None:
    harness = Harness(secured(connections_max_reauth_ms="1000"))
    async with connected(harness) as ask:
        assert (await ask(LOG_IN + WHO)).endswith(b"User:ann\n")
        harness.pass_ms(1_000)
        assert await ask(WHO) == b"User:ann\n"
        harness.pass_ms(1)
        assert await ask(WHO) == b""


async def test_reauthentication_extends_a_session_but_not_twice_in_a_second() -> None:
    harness = Harness(secured(connections_max_reauth_ms="1500"))
    async with connected(harness) as ask:
        await ask(LOG_IN + WHO)
        harness.pass_ms(1_000)
        assert (await ask(LOG_IN + WHO)).endswith(b"User:ann\n")
        harness.pass_ms(999)
        # treated as an ordinary request, which the dispatcher refuses
        assert await ask(frame(SaslHandshakeRequest("PLAIN"))) == b"User:ann\n"
        harness.pass_ms(1)
        assert (await ask(LOG_IN + WHO)).endswith(b"User:ann\n")
        harness.pass_ms(1_500)
        assert await ask(WHO) == b"User:ann\n"


async def test_expired_credentials_authorize_no_request_not_even_a_pipelined_one() -> None:
    options = 'required unsecuredValidatorAllowableClockSkewMs="5000"'
    jaas = f"org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule {options};"
    harness = Harness({**secured(sasl_enabled_mechanisms="OAUTHBEARER"), "listener.name.secure.oauthbearer.sasl.jaas.config": jaas})
    claims = json.dumps({"sub": "ann", "exp": harness.clock.now_ms() / 1000 - 1}).encode()
    header, claims = (base64.urlsafe_b64encode(text).rstrip(b"=") for text in (b'{"alg":"none"}', claims))
    token = b"n,,\x01auth=Bearer " + header + b"." + claims + b".\x01\x01"
    async with connected(harness) as ask:
        answered = await ask(frame(SaslHandshakeRequest("OAUTHBEARER")) + frame(SaslAuthenticateRequest(token)) + WHO)
        assert answered[27:].endswith(bytes(10)), "the log-in is good, for no time"
        assert b"User:ann" not in answered


async def test_an_expired_session_can_still_reauthenticate() -> None:
    harness = Harness(secured(connections_max_reauth_ms="1000"))
    async with connected(harness) as ask:
        await ask(LOG_IN + WHO)
        harness.pass_ms(5_000)
        assert (await ask(LOG_IN + WHO)).endswith(b"User:ann\n")


async def test_a_secured_listener_is_not_served_without_its_security() -> None:
    server = Server(Sockets(), [Listener("S", "127.0.0.1", 0, protocol=SecurityProtocol.SASL_PLAINTEXT)], 5)
    server.bind()
    with pytest.raises(AssertionError, match="must have its security configuration"):
        await server.start(Harness(secured()).shared)
    server.close()


async def test_a_slow_authentication_is_closed() -> None:
    harness = Harness(secured())
    async with connected(harness) as ask:
        begun = ask(b"\0\0\1\0" + bytes(10))
        while not harness.shared.budget.used:  # noqa: ASYNC110 # no event signals this
            await asyncio.sleep(0)
        harness.pass_ms(limits.LOG_IN_MS - 1)
        assert not next(iter(harness.shared.connections)).session.finished
        harness.pass_ms(1)
        with suppress(ConnectionError):
            assert await begun == b""
    await harness.shared.until_empty()
    assert harness.shared.budget.used == 0
    assert harness.timers.next_deadline() is None


async def test_a_client_that_authenticated_in_time_is_not_closed() -> None:
    harness = Harness(secured())
    async with connected(harness) as ask:
        await ask(LOG_IN + WHO)
        assert harness.timers.next_deadline() is None
        harness.pass_ms(2 * limits.LOG_IN_MS)
        assert b"ann" in await ask(WHO)


async def test_an_authentication_that_waits_for_the_broker_is_not_timed_out() -> None:
    harness = Harness(secured(connection_failed_authentication_delay_ms="30000"))
    async with connected(harness) as ask:
        wrong = ask(frame(SaslHandshakeRequest("PLAIN")) + frame(SaslAuthenticateRequest(plain(password="nope"))) + WHO)
        while all(each.idle for each in harness.shared.connections):  # noqa: ASYNC110 # no event signals this
            await asyncio.sleep(0)
        harness.pass_ms(limits.LOG_IN_MS)
        harness.pass_ms(20_000)
        assert b"Invalid username or password" in await wrong


@pytest.mark.parametrize(("given", "most"), [({}, limits.LOG_IN_BYTES), ({"sasl_server_max_receive_size": "524288"}, 524_288)])
async def test_requests_before_authentication_are_limited_to_64_kib_unless_configured(given: dict[str, str], most: int) -> None:
    for size, is_closed in [(most, False), (most + 1, True)]:
        harness = Harness(secured(**given))
        async with connected(harness) as ask:
            answer = ask(struct.pack(">i", size) + b"x" * 1_000)
            while not harness.shared.budget.used and not answer.done():  # noqa: ASYNC110 # no event signals this
                await asyncio.sleep(0)
            assert answer.done() is is_closed
            answer.cancel()

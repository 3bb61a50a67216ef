"""Attackers of a secured broker: during the TLS handshake, during authentication, and as a user with almost no permissions.

Rules:
- Attackers know only the guest's password, and the guest may only write to one topic.
- Every response is searched for data that only authorized users may read.
- Half of the requests are valid, so that attackers reach every state.
"""

from __future__ import annotations

import base64
import random
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from client_compat.fuzz import frames
from client_compat.fuzz.attack import ANSWER_BYTES, ANSWER_WAIT_S, CONNECT_WAIT_S, LORIS_OPEN_MAX, Target, a_body
from client_compat.matrix.broker_security import MECHANISMS, BrokerSecurity, unsecured_token
from client_compat.support.brokers import HOST
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.login import NotTrusted, log_in
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.schema import Message

SECRET_TOPIC, SECRET = "behind-the-lock", b"nobody outside may read this"
GUEST, GUEST_PASSWORD = "guest", "let me in"
GUESTS_TOPIC = "guests"
OVERSIZED = (524_287, 524_288, 524_289, 600_000)
"""Sizes of SASL tokens, in bytes, around the default of sasl.server.max.receive.size (524288)."""
STEPS_MAX = 8
SIZE_BYTES = 4
"""Length of a frame's size prefix."""
FETCH_VERSION, METADATA_VERSION = 11, 8


class UnauthorizedAccess(RuntimeError):
    """Raised when an attacker received data without authorization."""


@dataclass(slots=True)
class SecuredListeners:
    """An attacker's access to the listeners of a secured broker: opens connections and counts them in `target`."""

    broker_security: BrokerSecurity
    target: Target

    @property
    def rng(self) -> random.Random:
        return self.target.rng

    def plain(self, listener: str) -> socket.socket:
        """Open a connection without TLS to the broker's listener `listener`, and return it."""
        self.target.counts["connections"] += 1
        return socket.create_connection((HOST, self.broker_security.ports[listener]), CONNECT_WAIT_S)

    @contextmanager
    def through(self, listener: str) -> Iterator[socket.socket]:
        """Open a connection to the listener `listener`, with TLS unless the listener is BARE, and yield it."""
        with self.plain(listener) as connected:
            if listener == "BARE":
                yield connected
                return
            with _trusting(self.broker_security).wrap_socket(connected, server_hostname=HOST) as secured:
                yield secured


def _trusting(broker_security: BrokerSecurity) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=broker_security.files["ca"])


def _client_hello(broker_security: BrokerSecurity) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        _trusting(broker_security).wrap_bio(incoming, outgoing, server_hostname=HOST).do_handshake()
    return outgoing.read()


def _spoiled(listeners: SecuredListeners, hello: bytes) -> bytes:
    """Return the ClientHello unchanged, or with one to four random bytes replaced."""
    if listeners.rng.random() < 0.4:
        return hello
    changed = bytearray(hello)
    for _ in range(listeners.rng.randint(1, 4)):
        changed[listeners.rng.randrange(len(changed))] = listeners.rng.randrange(256)
    return bytes(changed)


def half_handshakes(listeners: SecuredListeners) -> None:
    """Open connections, send a part of a TLS handshake or its whole first flight, and then close the connection."""
    hello = _spoiled(listeners, _client_hello(listeners.broker_security))
    with listeners.plain(listeners.rng.choice(("TLS", "CERTIFIED", "LOGIN"))) as peer:
        peer.sendall(hello[: listeners.rng.randrange(len(hello) + 1)])
        listeners.target.counts["half handshakes"] += 1
        if listeners.rng.random() < 0.3:
            peer.settimeout(ANSWER_WAIT_S)
            peer.recv(ANSWER_BYTES)
        if listeners.rng.random() < 0.5:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def slow_handshakes(listeners: SecuredListeners) -> None:
    """Open connections that begin a TLS handshake, and add them to the slow connections, to which `slow_loris` sends a byte now and then;
    then close a random one of them."""
    hello = _client_hello(listeners.broker_security)
    while len(listeners.target.loris) < LORIS_OPEN_MAX:
        peer = listeners.plain(listeners.rng.choice(("TLS", "LOGIN")))
        peer.setblocking(False)
        peer.send(hello[: listeners.rng.randrange(1, 6)])
        listeners.target.counts["slow handshakes"] += 1
        listeners.target.loris.append(peer)
    listeners.target.loris.pop(listeners.rng.randrange(len(listeners.target.loris))).close()


def plain_bytes_at_tls(listeners: SecuredListeners) -> None:
    with listeners.plain(listeners.rng.choice(("TLS", "CERTIFIED", "LOGIN"))) as peer:
        listeners.target.counts["plain bytes at TLS"] += 1
        peer.sendall(frames.framed(a_body(listeners.target)))
        _look(listeners, peer)


def tls_at_plain_listeners(listeners: SecuredListeners) -> None:
    with listeners.plain("BARE") if listeners.rng.random() < 0.5 else listeners.target.connect() as peer:
        listeners.target.counts["TLS at plain listeners"] += 1
        peer.sendall(_spoiled(listeners, _client_hello(listeners.broker_security)))
        _look(listeners, peer)


def log_ins(listeners: SecuredListeners) -> None:
    """Try to log in with invalid credentials: in and out of order, in both token formats, malformed and oversized.

    Other requests are sent in between.
    """
    with listeners.through(listeners.rng.choice(("BARE", "BARE", "BARE", "LOGIN", "AGAIN"))) as peer:
        state = _LoginState(listeners)
        for step in range(listeners.rng.randint(1, STEPS_MAX)):
            kind = "handshake" if step == 0 and listeners.rng.random() < 0.8 else listeners.rng.choice(KINDS)
            listeners.target.counts[f"log-ins: {kind}"] += 1
            peer.sendall(state.made(kind))
            answer = _look(listeners, peer)
            if answer is None:
                return
            if b"r=" in answer:
                state.server_first = answer[answer.find(b"r=") :]
        peer.sendall(_reads_the_secret())
        _look(listeners, peer)


KINDS = ("token", "token", "token", "request", "any", "handshake")


@dataclass(slots=True)
class _LoginState:
    """The state of a log-in: chosen mechanism, token format, and the server's first message."""

    listeners: SecuredListeners
    framed: bool = True
    mechanism: str = "PLAIN"
    server_first: bytes = b""

    def made(self, kind: str) -> bytes:
        """Return the bytes of the next message of type `kind`: "handshake", "token", "request" (another valid request), or any other word
        for a damaged request."""
        listeners = self.listeners
        match kind:
            case "handshake":
                self.mechanism, version = listeners.rng.choice((*MECHANISMS, "GSSAPI", "")), listeners.rng.choice((0, 1, 1))
                self.framed, self.server_first = version == 1, b""
                return _request(SaslHandshakeRequest(self.mechanism), version)
            case "token":
                token = _token(listeners, self.mechanism, self.server_first)
                return _request(SaslAuthenticateRequest(token), listeners.rng.randint(0, 2)) if self.framed else frames.framed(token)
            case "request":
                versions = _request(ApiVersionsRequest("fuzz", "1"), 3)
                return listeners.rng.choice((_reads_the_secret(), versions, frames.framed(a_body(listeners.target))))
        return frames.spoil(listeners.rng, a_body(listeners.target))


def failed_log_ins(listeners: SecuredListeners, count: int = 20) -> None:
    """Try wrong passwords, one connection after the other."""
    for _ in range(count):
        with listeners.plain("BARE") as peer:
            user = listeners.rng.choice((GUEST, "admin", "nobody", "u" * 1_000))
            peer.sendall(_request(SaslHandshakeRequest("PLAIN"), 1))
            _answer(peer)
            peer.sendall(_request(SaslAuthenticateRequest(f"\0{user}\0{listeners.rng.random()}".encode()), 2) + _reads_the_secret())
            _search(_answer(peer))
            listeners.target.counts["failed log-ins"] += 1


def as_a_guest(listeners: SecuredListeners) -> None:
    """Authenticate as the guest and send valid and malformed requests of every API, with log-ins between."""
    with listeners.through(listeners.rng.choice(("BARE", "LOGIN", "AGAIN"))) as peer:
        if not _logged_in(listeners, peer):
            raise UnauthorizedAccess("the guest, whose password is right, was not let in")
        for _ in range(listeners.rng.randint(1, 30)):
            draw = listeners.rng.random()
            if draw < 0.1:
                peer.sendall(_request(SaslHandshakeRequest(listeners.rng.choice(MECHANISMS)), listeners.rng.randint(0, 1)))
            elif draw < 0.2:
                peer.sendall(_request(SaslAuthenticateRequest(_token(listeners, "SCRAM-SHA-256", b"")), 1))
            elif draw < 0.3:
                peer.sendall(_reads_the_secret())
            else:
                body = a_body(listeners.target)
                peer.sendall(frames.framed(body) if draw < 0.7 else frames.spoil(listeners.rng, body))
            listeners.target.counts["frames of a guest"] += 1
            if _look(listeners, peer) is None:
                return


def _logged_in(listeners: SecuredListeners, peer: socket.socket) -> bool:
    """Authenticate as the guest with SCRAM-SHA-256; return whether that succeeded."""

    def ask(token: bytes) -> bytes:
        peer.sendall(_request(SaslAuthenticateRequest(token), 0))
        return bytes(decode_response(ApiKey.SASL_AUTHENTICATE, 0, _answer(peer)[SIZE_BYTES:])[1].auth_bytes)

    peer.settimeout(CONNECT_WAIT_S)
    peer.sendall(_request(SaslHandshakeRequest("SCRAM-SHA-256"), 1))
    _answer(peer)
    try:
        log_in("SCRAM-SHA-256", GUEST, GUEST_PASSWORD, ask, listeners.rng.randbytes)
    except NotTrusted:
        return False
    return True


def _token(listeners: SecuredListeners, mechanism: str, server_first: bytes) -> bytes:
    """Return a SASL token that must fail: random or oversized bytes, a user whose password the attacker does not know, or a SCRAM message
    with a wrong nonce, iteration count or proof."""
    rng = listeners.rng
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(200)) if rng.random() < 0.7 else bytes(rng.choice(OVERSIZED))
    if mechanism == "PLAIN":
        return rng.choice((b"\0admin\0admin", b"\0patricia\0", b"patricia\0patricia\0x", b"\0\0\0", b"\xff\0\xfe\0\xfd", b"\0" * 5_000))
    if mechanism == "OAUTHBEARER":
        token = rng.choice((unsecured_token("late", -60), "a.b.c", "." * 2_000, "eyJhbGciOiJub25lIn0." + "A" * 9_000 + ".", "[" * 5_000))
        return rng.choice((f"n,,\1auth=Bearer {token}\1\1".encode(), f"n,a=x,\1auth=bearer {token}\1a=b\1\1".encode(), b"\1"))
    if not server_first:
        nonce = rng.choice(("fyko", "", "," * 10, "n" * 10_000))
        messages = (f"n,,n={GUEST},r={nonce}", f"n,a={GUEST},n={GUEST},r={nonce}", f"n,,n=,r={nonce}", f"y,,n=a=b,r={nonce}")
        return rng.choice(messages).encode()
    nonce = rng.choice((server_first.split(b",")[0], b"r=fyko", b"r=", b"r=" + b"x" * 1_000)).decode("latin-1")
    proof = base64.b64encode(rng.randbytes(rng.choice((0, 1, 31, 32, 33, 64)))).decode()
    finals = (f"c=biws,{nonce},p={proof}", f"c=biws,{nonce}", f"{nonce},i=1,p={proof}", f"c={'A' * 2_000},{nonce},p=")
    return rng.choice(finals).encode("latin-1")


def _reads_the_secret() -> bytes:
    topic = FetchTopic(SECRET_TOPIC, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1_000_000)])
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000_000, topics=[topic])
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name=SECRET_TOPIC)])
    return _request(fetch, FETCH_VERSION) + _request(metadata, METADATA_VERSION)


def _request(request: Message, version: int) -> bytes:
    return b"".join(encode_request(request.API_KEY, version, 7, "fuzz", request))


def _answer(peer: socket.socket) -> bytes:
    """Return the next bytes that the broker sends; empty if the broker closed the connection."""
    peer.settimeout(CONNECT_WAIT_S)
    return peer.recv(ANSWER_BYTES)


def _look(listeners: SecuredListeners, peer: socket.socket) -> bytes | None:
    """Return the bytes that arrive within a short time; empty if none do; None if the broker closed the connection."""
    peer.settimeout(ANSWER_WAIT_S)
    try:
        data = peer.recv(ANSWER_BYTES)
    except TimeoutError:
        return b""
    _search(data)
    return data or None


def _search(data: bytes) -> None:
    if SECRET in data:
        raise UnauthorizedAccess(f"an attacker was answered with the records of {SECRET_TOPIC}")


ATTACKS: tuple[tuple[Callable[[SecuredListeners], None], int], ...] = (
    (log_ins, 40),
    (as_a_guest, 20),
    (half_handshakes, 15),
    (failed_log_ins, 5),
    (plain_bytes_at_tls, 5),
    (tls_at_plain_listeners, 5),
    (slow_handshakes, 2),
)


def attack_secured_once(listeners: SecuredListeners) -> None:
    """Run one attack, chosen by weight. Raises OSError if the broker no longer accepts connections, and UnauthorizedAccess if an attacker
    receives protected data."""
    (attack,) = listeners.rng.choices([attack for attack, _ in ATTACKS], [weight for _, weight in ATTACKS])
    listeners.target.counts["attacks"] += 1
    try:
        attack(listeners)
    except (TimeoutError, ConnectionResetError, BrokenPipeError, BlockingIOError, ssl.SSLError):
        listeners.target.counts["closed by the broker"] += 1

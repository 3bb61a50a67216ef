"""Compare SASL authentication: send the same bytes, valid and invalid, in and out of order, to both brokers and compare the responses.

Rules:
- A log-in is a list of steps drawn from a seed. Each step sends one frame and reads the response, or records that the broker closed the
  connection.
- The client verifies and then drops values that a broker draws at random (nonce, salt); everything else is compared.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from client_compat.differential.normalise import Names, Plain, normalise
from client_compat.differential.probe import Seen
from client_compat.differential.run import Report, common_versions, compare
from client_compat.differential.signed import ALLOWED_URLS, Issuer
from client_compat.differential.tokens import SECRET, TokenClients, by_kafkas_tool
from client_compat.kafka.reference import SMALL_JVM, ReferenceBroker
from client_compat.support.brokers import HOST, BrokerProcess
from client_compat.support.kerberos import Realm
from client_compat.support.ports import free_port
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.protocol.messages.registry import request_class

TIMEOUT_S = 2.0
LOG_INS = 400
STEPS_MAX = 7
MODULES = "org.apache.kafka.common.security"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
PASSWORD = "pass word"
USERS = {"ann": PASSWORD, "bob": "b"}
OWN_READERS = frozenset({29, 30, 31})
"""The ACL APIs. They are left out of this comparison, because Kafka validates their fields while it parses the request, before it checks
authentication."""
ELSEWHERE = frozenset({ApiKey.OFFSET_DELETE, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS})
"""APIs that are left out here, because other scenarios compare them: OFFSET_DELETE waits for a coordinator, and the order of SCRAM users is
that of a hash map."""
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

PLAIN_TOKENS = {
    "right": b"\0ann\0pass word",
    "right, for itself": b"ann\0ann\0pass word",
    "bob's": b"\0bob\0b",
    "wrong": b"\0ann\0nope",
    "unknown": b"\0eve\0pass word",
    "for another": b"bob\0ann\0pass word",
    "no name": b"\0\0x",
    "no password": b"\0ann\0",
    "one part": b"ann",
    "four parts": b"\0ann\0pass word\0",
    "five parts": b"\0a\0b\0c\0d",
    "empty": b"",
    "not UTF-8": b"\xff\0\xfe\0\xfd",
}


def _part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _jwt(header: object = None, signature: str = "", **claims: object) -> str:
    return f"{_part(header or {'alg': 'none'})}.{_part({'sub': 'ann', 'exp': 4_102_444_800} | claims)}.{signature}"


def _bearer(token: str, authzid: str = "", scheme: str = "Bearer", rest: str = "") -> bytes:
    return f"n,{authzid},\x01auth={scheme} {token}\x01{rest}\x01".encode()


BEARER_TOKENS = {
    "right": _bearer(_jwt()),
    "right, for itself": _bearer(_jwt(), "a=ann"),
    "bob's": _bearer(_jwt(sub="bob")),
    "extended": _bearer(_jwt(iat=1_600_000_000), rest="a=b c\x01"),
    "for another": _bearer(_jwt(), "a=bob"),
    "other scheme": _bearer(_jwt(), scheme="Basic"),
    "any case": _bearer(_jwt(), scheme="bEARER"),
    "old": _bearer(_jwt(exp=1_000_000_000)),
    "of the future": _bearer(_jwt(iat=4_000_000_000)),
    "backwards": _bearer(_jwt(iat=5_000_000_000)),
    "without an end": _bearer(_jwt(exp=None)),
    "text for an end": _bearer(_jwt(exp="never")),
    "no name": _bearer(_jwt(sub=" ")),
    "number for a name": _bearer(_jwt(sub=7)),
    "truth for a name": _bearer(_jwt(sub=True)),
    "list for a name": _bearer(_jwt(sub=["ann"])),
    "number for a scope": _bearer(_jwt(scope=7)),
    "scopes": _bearer(_jwt(scope=["a", " ", 5])),
    "signed": _bearer(_jwt(signature="AAAA")),
    "other algorithm": _bearer(_jwt({"alg": "RS256"})),
    "number for an algorithm": _bearer(_jwt({"alg": 1})),
    "no algorithm": _bearer(_jwt({"typ": "JWT"})),
    "list for a header": _bearer(_jwt([1])),
    "two parts": _bearer("a.b"),
    "two dots": _bearer("a..b"),
    "no JSON": _bearer(f"{_part(b'x')}.{_part(b'y')}."),
    "no base64": _bearer("A.A."),
    "empty parts": _bearer(".a."),
    "acknowledged": b"\x01",
    "no message": b"n,,\x01\x01",
    "empty": b"",
}
FIRST_MESSAGES = {
    "right": b"n,,n=ann,r=fyko",
    "for itself": b"n,a=ann,n=ann,r=fyko",
    "for another": b"n,a=bob,n=ann,r=fyko",
    "reserved": b"n,,m=x,n=ann,r=fyko",
    "extended": b"n,,n=ann,r=fyko,tokenauth=false",
    "of a token": b"n,,n=ann,r=fyko,tokenauth=true",
    "unknown": b"n,,n=eve,r=fyko",
    "bound": b"y,,n=ann,r=fyko",
    "channel": b"p=tls-unique,,n=ann,r=fyko",
    "no nonce": b"n,,n=ann,r=",
    "bad name": b"n,,n=a=b,r=fyko",
    "escaped": b"n,,n=a=2Cb=3Dc,r=fyko",
    "empty": b"",
    "PLAIN": b"\0ann\0pass word",
}
FINAL_MESSAGES: dict[str, Callable[[bytes], bytes]] = {
    "right": lambda message: message,
    "wrong proof": lambda message: message[:-8] + b"AAAAAAA=",
    "short proof": lambda message: message[: message.index(b",p=") + 3] + b"AAAA",
    "no proof": lambda message: message[: message.index(b",p=") + 3],
    "other nonce": lambda message: message.replace(b"r=fyko", b"r=fykx"),
    "cut nonce": lambda message: message.replace(b",p=", b"x,p="),
    "other binding": lambda message: message.replace(b"c=biws", b"c=eSws"),
    "extended": lambda message: message.replace(b",p=", b",x=1,p="),
    "empty": lambda _: b"",
    "first again": lambda _: FIRST_MESSAGES["right"],
}


@dataclass(frozen=True, slots=True)
class Step:
    """One frame that a client sends during an authentication. `kind` selects the request type (such as `handshake`), `name` the variant of
    its content (such as a mechanism)."""

    kind: str
    name: str = ""
    version: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.name} v{self.version}"


def drawn_steps(random: Random, keys: Sequence[int]) -> list[Step]:
    """Return random steps of one log-in: mostly those of a normal client, with a few odd ones in between. `keys` are the API keys of the
    requests that may be sent in between."""
    steps: list[Step] = []
    if random.random() < 0.4:
        steps.append(Step("versions", random.choice(["good", "good", "bad"]), random.randint(0, 5)))
    mechanism = random.choice([*MECHANISMS, *MECHANISMS, "GSSAPI", "plain", ""])
    steps.append(Step("handshake", mechanism, random.choice([0, 1, 1, 1])))
    for _ in range(random.randint(1, 3)):
        steps.append(_token(random, mechanism))
    for _ in range(random.choice([0, 0, 1, 2])):
        steps.insert(random.randint(0, len(steps)), _anything(random, keys))
    if random.random() < 0.4:
        steps += [Step("handshake", random.choice(MECHANISMS), random.randint(0, 1)), _token(random, mechanism), Step("metadata")]
    return [*steps, Step("metadata")][:STEPS_MAX]


def _token(random: Random, mechanism: str) -> Step:
    right = random.random() < 0.5
    if mechanism == "OAUTHBEARER":
        return Step("bearer", "right" if right else random.choice([*BEARER_TOKENS, "acknowledged", "acknowledged"]), random.randint(0, 2))
    if mechanism not in _HASHES:
        return Step("plain", "right" if right else random.choice(list(PLAIN_TOKENS)), random.randint(0, 2))
    name = "right" if right else random.choice([*FIRST_MESSAGES, *FINAL_MESSAGES])
    return Step("scram", name, random.randint(0, 2))


def _anything(random: Random, keys: Sequence[int]) -> Step:
    match random.randint(0, 5):
        case 0:
            return Step("versions", random.choice(["good", "bad", "unknown"]), random.randint(0, 4))
        case 1:
            return Step("handshake", random.choice(MECHANISMS), random.choice([0, 1, 2]))
        case 2:
            key = random.choice(keys)
            return Step("request", ApiKey(key).name, request_class(key).MAX_VERSION)
        case 3:
            return Step(
                "bytes", random.choice(["00", "0000", "12", "0011", "ffff0000", "6006092a", "485454502f", "0011000100000001ffff7fff"])
            )
        case 4:
            return Step("plain", random.choice(list(PLAIN_TOKENS)), random.randint(0, 2))
        case _:
            return Step("metadata")


@dataclass(slots=True)
class Login:
    """One connection to a broker, which executes the steps of one log-in (a random sequence of authentication messages) and records the
    responses."""

    port: int
    seen: list[Seen] = field(default_factory=list)
    signed: Mapping[str, str] = field(default_factory=dict)
    _names: Names = field(default_factory=Names)
    _framed: bool = True
    _mechanism: str = ""
    _first: bytes = b""
    _server_first: bytes = b""
    _signature: bytes = b""

    def run(self, steps: list[Step]) -> list[Seen]:
        with socket.create_connection((HOST, self.port), TIMEOUT_S) as connection:
            for number, step in enumerate(steps):
                outcome = self._take(connection, step)
                self.seen.append(Seen(f"{number}: {step}", step.kind, step.version, outcome))
                if isinstance(outcome, str) and outcome.startswith("<"):
                    break
        return self.seen

    def _take(self, connection: socket.socket, step: Step) -> Plain:
        request, version, bare = self._made(step)
        try:
            connection.sendall(_sized(bare) if request is None else b"".join(encode_request(request.API_KEY, version, 7, "t", request)))
            frame = _frame(connection)
        except TimeoutError:
            return "<nothing>"
        except OSError:
            return "<closed>"
        if frame is None:
            return "<closed>"
        if request is None:
            return self._plain_token(frame)
        return self._answer(request, version, frame)

    def _made(self, step: Step) -> tuple[Any, int, bytes]:
        """Return the frame of a step: a request and its version, or None, 0 and bytes to send without a request header."""
        version = step.version
        match step.kind:
            case "versions":
                version = 99 if step.name == "unknown" or version > 4 else version
                if version == 99:
                    return None, 0, struct.pack(">hhih", 18, 99, 7, -1) + b"\0"
                return ApiVersionsRequest("test", "1") if step.name == "good" else ApiVersionsRequest("no name", ""), version, b""
            case "handshake":
                self._mechanism, self._server_first = step.name, b""
                self._framed = version >= 1
                if version > 1:
                    return None, 0, struct.pack(">hhih", 17, version, 7, -1) + b"\0\5PLAIN"
                return SaslHandshakeRequest(step.name), version, b""
            case "metadata":
                return MetadataRequest(topics=[]), 1, b""
            case "request":
                return request_class(ApiKey[step.name])(), version, b""
            case "bytes":
                return None, 0, bytes.fromhex(step.name)
        token = self._token(step)
        return (SaslAuthenticateRequest(token), version, b"") if self._framed else (None, 0, token)

    def _token(self, step: Step) -> bytes:
        match step.kind:
            case "plain":
                return PLAIN_TOKENS[step.name]
            case "bearer":
                return BEARER_TOKENS[step.name]
            case "signed":
                return _bearer(self.signed[step.name])
        return self._scram(step.name)

    def _scram(self, name: str) -> bytes:
        if not self._server_first:
            self._first = FIRST_MESSAGES.get(name, FIRST_MESSAGES["right"])
            return self._first
        return FINAL_MESSAGES.get(name, FINAL_MESSAGES["right"])(self._final())

    def _final(self) -> bytes:
        items = dict(item.split("=", 1) for item in self._server_first.decode().split(","))
        name = _HASHES.get(self._mechanism, "sha256")
        salted = hashlib.pbkdf2_hmac(name, PASSWORD.encode(), base64.b64decode(items["s"]), int(items["i"]))
        key = hmac.digest(salted, b"Client Key", name)
        bare = self._first.decode().split(",", 2)[2].removeprefix("m=x,")
        without_proof = f"c=biws,r={items['r']}"
        signed = f"{bare},{self._server_first.decode()},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(name, key).digest(), signed, name)
        self._signature = b"v=" + base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name))
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _plain_token(self, token: bytes) -> Plain:
        """Return the content of a broker's SASL token without its random values."""
        if token.startswith(b"r=fyko") and token.count(b",") == 2:
            self._server_first = token
            nonce, _, iterations = token.decode().split(",")
            return f"server's first, {iterations}, nonce longer: {len(nonce) > len('r=fyko')}"
        if token.startswith(b"v="):
            self._server_first = b""
            return f"server's last, signed: {token == self._signature}"
        return token.hex()

    def _answer(self, request: Any, version: int, frame: bytes) -> Plain:
        refused = request.API_KEY == ApiKey.API_VERSIONS and frame[4:6] == b"\0\x23"
        try:
            _, response = decode_response(request.API_KEY, 0 if refused else version, memoryview(frame))
        except ProtocolError:
            return frame.hex()
        match request:
            case ApiVersionsRequest():
                return {
                    "error_code": response.error_code,
                    "sasl": sorted(api.api_key for api in response.api_keys if api.api_key in {17, 18, 36}),
                }
            case SaslHandshakeRequest():
                return {"error_code": response.error_code, "mechanisms": sorted(response.mechanisms)}
            case SaslAuthenticateRequest():
                return {
                    "error_code": response.error_code,
                    "message": response.error_message,  # compared literally, because users' tests match on the message
                    "token": self._plain_token(bytes(response.auth_bytes)),
                    "lifetime in hours": round(response.session_lifetime_ms / 3_600_000),
                }
            case MetadataRequest():
                return {"brokers": len(response.brokers)}
        return normalise(response, self._names)


def _sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _frame(connection: socket.socket) -> bytes | None:
    head = _exactly(connection, 4)
    return None if head is None else _exactly(connection, struct.unpack(">i", head)[0])


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            return None
        data += piece
    return data


LISTENERS = ("LOGIN", "AGAIN")
"""The names of the SASL listeners for random log-ins. AGAIN requires re-authentication (KIP-368)."""
SIGNED = "SIGNED"
"""The name of the listener that authenticates with OAUTHBEARER tokens which an issuer signed."""
TICKETS = "TICKETS"
"""The name of the listener that authenticates with Kerberos tickets (GSSAPI)."""


Pair = tuple[str, dict[str, int], dict[str, int], tuple[int, int]]
"""The brokers under comparison: Apache Kafka's version, Apache Kafka's ports by listener, Ottla's ports by listener, and the plaintext
ports of both."""


@dataclass(slots=True)
class _ListenerSecurity:
    """The listener security of the compared brokers: listeners with their protocols, settings, and JVM options."""

    names: list[str]
    protocols: str
    settings: dict[str, str]
    jvm: list[str]
    allowed: str

    def listeners(self, plain: str) -> tuple[dict[str, int], str]:
        """Choose a free port for each SASL listener. Return the ports by listener name, and the value of the setting `listeners` with them
        and a plaintext listener at the address `plain`."""
        ports = {name: free_port() for name in self.names}
        return ports, ",".join([f"PLAINTEXT://{plain}", *(f"{name}://{HOST}:{port}" for name, port in ports.items())])


def _listener_security(issuer: Issuer, realm: Realm | None) -> _ListenerSecurity:
    jaas = f'{MODULES}.plain.PlainLoginModule required user_ann="{USERS["ann"]}" user_bob="{USERS["bob"]}";'
    same = {"connection.failed.authentication.delay.ms": "0", "delegation.token.secret.key": SECRET}
    for name in LISTENERS:
        prefix = f"listener.name.{name.lower()}."
        same[f"{prefix}sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
        same[f"{prefix}plain.sasl.jaas.config"] = jaas
        module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
        same[f"{prefix}oauthbearer.sasl.jaas.config"] = f'{module} required unsecuredLoginStringClaim_sub="kafka";'
        for mechanism in SCRAM:
            same[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = f"{MODULES}.scram.ScramLoginModule required;"
    same["listener.name.again.connections.max.reauth.ms"] = "3600000"
    same |= {"listener.name.signed.sasl.enabled.mechanisms": "OAUTHBEARER", **issuer.settings("listener.name.signed.oauthbearer.")}
    allowed = issuer.file.as_uri()
    names, jvm = [*LISTENERS, SIGNED], [*SMALL_JVM, f"-D{ALLOWED_URLS}={allowed}"]
    if realm is not None:
        from client_compat.differential import tickets  # noqa: PLC0415 # needs an optional dependency that few install

        names, jvm = [*names, TICKETS], [*jvm, f"-Djava.security.krb5.conf={realm.config}"]
        same |= tickets.settings(realm, TICKETS)
    protocols = ",".join(["PLAINTEXT:PLAINTEXT", *(f"{name}:SASL_PLAINTEXT" for name in names)])
    return _ListenerSecurity(names, protocols, same, jvm, allowed)


def kafka_with_sasl(directory: Path, issuer: Issuer, realm: Realm | None = None) -> tuple[ReferenceBroker, dict[str, int]]:
    """Format a node of Apache Kafka with a plaintext listener and the SASL listeners of this comparison; return it with the SASL listeners'
    ports, by listener name. `realm`: the Kerberos realm for the GSSAPI listener, if any. Raises `KafkaMissing` or `BrokerFailed`."""
    security = _listener_security(issuer, realm)
    settings = dict(security.settings)
    reference = ReferenceBroker(directory, settings, jvm=security.jvm)
    ports, listeners = security.listeners(reference.bootstrap)
    listeners = f"{listeners},CONTROLLER://{HOST}:{reference.controller_port}"
    settings |= {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{security.protocols}",
    }
    reference.format(options=[f"--add-scram={each}=[name=ann,password={PASSWORD}]" for each in SCRAM])
    return reference, ports


@contextmanager
def brokers_with_sasl(directory: Path, issuer: Issuer, realm: Realm | None = None) -> Iterator[Pair]:
    """Run Apache Kafka and Ottla with the same listener security; yield the ports of both. Raises `KafkaMissing` or `BrokerFailed`."""
    reference, theirs = kafka_with_sasl(directory / "kafka", issuer, realm)
    security, plain_port = _listener_security(issuer, realm), free_port()
    mine, listeners = security.listeners(f"{HOST}:{plain_port}")
    file = directory / "ottla.properties"
    given = {
        **security.settings,
        ALLOWED_URLS: security.allowed,
        "listeners": listeners,
        "listener.security.protocol.map": security.protocols,
    }
    file.write_text("".join(f"{name}={text}\n" for name, text in given.items()))
    argv = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(directory / "ottla"), "--config", str(file)]
    with reference, BrokerProcess(argv, plain_port, directory / "ottla-broker.log"):
        _add_users(plain_port)
        yield reference.version, theirs, mine, (reference.port, plain_port)


def _add_users(port: int) -> None:
    with Client(HOST, port) as client:
        for number, mechanism in enumerate(SCRAM, 1):
            salted = hashlib.pbkdf2_hmac(_HASHES[mechanism], PASSWORD.encode(), b"of the sea", 4096)
            upsertion = ScramCredentialUpsertion("ann", number, 4096, b"of the sea", salted)
            client.call(AlterUserScramCredentialsRequest([], [upsertion]), 0)


def differential_of_logins(
    directory: Path,
    log_ins: int = LOG_INS,
    seed: int = 1,
    realm: Realm | None = None,
    pair: Callable[[Path, Issuer, Realm | None], AbstractContextManager[Pair]] = brokers_with_sasl,
) -> Report:
    """Start Apache Kafka and Ottla with the same listener security, run `log_ins` random log-ins at each, and return the differences of the
    responses. Then compare delegation tokens and signed OAUTHBEARER tokens. `pair` is the context manager that runs the two brokers.

    With `realm` (a Kerberos realm), GSSAPI is compared too; the process has to run in the realm's environment. Raises `KafkaMissing` or
    `BrokerFailed` if a broker cannot be started.
    """
    directory.mkdir(parents=True, exist_ok=True)
    random = Random(seed)
    issuer = Issuer(directory / "keys.json")
    with pair(directory, issuer, realm) as (version, theirs, mine, plain):
        report = Report(version)
        keys = sorted(set(common_versions(*plain)) - OWN_READERS - ELSEWHERE)
        for number in range(log_ins):
            steps, listener = drawn_steps(random, keys), random.choice(LISTENERS)
            name = f"login {seed}/{number} at {listener}"
            kafka, ours = (Login(ports[listener]).run(steps) for ports in (theirs, mine))
            report.scenarios.append(name)
            report.answers += len(kafka)
            report.differences += compare(name, kafka, ours)
        tokens = [TokenClients(ports["LOGIN"], open_port, USERS).run() for ports, open_port in zip((theirs, mine), plain, strict=True)]
        by_tool = by_kafkas_tool(directory, theirs["LOGIN"], mine["LOGIN"])
        signed = [_with_signed_tokens(ports[SIGNED], issuer.tokens()) for ports in (theirs, mine)]
        reports = {"tokens": tokens, "tokens by Kafka's tool": by_tool, "signed tokens": signed}
        if realm is not None:
            reports["tickets"] = _with_tickets(realm, theirs[TICKETS], mine[TICKETS])
        for name, (kafka, ours) in reports.items():
            report.scenarios.append(name)
            report.answers += len(kafka)
            report.differences += compare(name, kafka, ours)
    return report


def _with_tickets(realm: Realm, *ports: int) -> list[list[Seen]]:
    from client_compat.differential.tickets import Tickets  # noqa: PLC0415 # needs an optional dependency that few install

    clients = Tickets(realm)
    return [clients.run(port) for port in ports]


def _with_signed_tokens(port: int, tokens: Mapping[str, str]) -> list[Seen]:
    """Authenticate by OAUTHBEARER to the listener at `port`, on a new connection for each of the `tokens` (by description), and return the
    responses."""
    seen = []
    for name in tokens:
        steps = [Step("handshake", "OAUTHBEARER", 1), Step("signed", name, 2), Step("bearer", "acknowledged", 2), Step("metadata", "", 1)]
        seen += Login(port, signed=tokens).run(steps)
    return seen

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
import uvloop

from ottla.broker.app import Broker
from ottla.broker.core.acl import Operation
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings_load import load
from ottla.broker.core.timers import Timers
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.net.client_security import ClientSecurity
from ottla.broker.net.network import Sockets
from ottla.broker.net.node_client import NodeClient
from ottla.broker.net.secured_node_client import SecuredNodeClient
from ottla.broker.runtime.nodes.authentication import AuthenticationFailed
from ottla.broker.runtime.nodes.link import Link, LinkBroken, Node
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver
from ottla.broker.security.scram import SHA_512, salted_password
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.memory_network import MemoryTransport
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.protocol.codec import decode_request, encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k29_describe_acls import DescribeAclsRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.certificates import Certificates
from tests.support.inter_broker_security import MECHANISMS, SCRAM_PASSWORD, USER, client_security_of, jaas, log_ins
from tests.support.node_links import LinkHarness
from tests.support.running_broker import HOST, RunningBroker
from tests.support.simulation import settle

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{USER}",
}
EVERYTHING = DescribeAclsRequest(1, None, 1, None, None, Operation.ANY, 1)
"""A request that only a super user, such as another node, may send."""
AT = {"LOGIN": 9092, "PLAINTEXT": 9093}


def fetch_of(follower: int) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(replica_id=follower, max_wait_ms=0, topics=[FetchTopic("t", partitions=[partition])])


class Harness(LinkHarness):
    """A broker in memory with a SASL listener LOGIN and a plaintext listener PLAINTEXT; links go to LOGIN."""

    async def begin(self) -> Harness:
        given = {
            "log.dir": "/data",
            "listeners": ",".join(f"{name}://broker:{port}" for name, port in AT.items()),
            "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "listener.name.login.connections.max.reauth.ms": "100000",
            **log_ins("LOGIN"),
            **AUTHORIZER,
        }
        environment = Environment(self.clock, MemoryFiles(), self.network, Random(1), InlineThreads)
        self.broker = Broker(load(given, {}, None).settings, Faults(), environment)
        await self.broker.start()
        return self

    def link(self, client_security: ClientSecurity | None, at: str = "LOGIN") -> NodeClient:
        common: dict[str, Any] = {"clock": self.clock, "timers": self.timers, "random": Random(1), "client_id": "broker-7"}
        node = Node(7, "broker", AT[at])
        if client_security is None:
            return NodeClient(node, self.network, **common)
        return SecuredNodeClient(node, client_security=client_security, network=self.network, **common)

    async def call(self, link: Link, request: Any, version: int | None = None) -> Any:
        """Send a request over a link; return the response or raise its error. The response to a failed authentication is delayed by the
        broker."""
        call = asyncio.ensure_future(link.call(request, timeout_ms=10_000, version=version))
        for _ in range(4):
            if (found := await self.outcome(call)) is not None:
                return found
            self.clock.advance(200)
        raise AssertionError("no answer came")

    async def known(self, link: Link) -> bool:
        answer = await self.call(link, EVERYTHING)
        assert not isinstance(answer, Exception), answer
        return not answer.error_code

    async def give_password(self) -> None:
        """Write the node's SCRAM credential to the metadata."""
        salted = salted_password(SHA_512, SCRAM_PASSWORD, b"salt", 4096)
        request = AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion(USER, SHA_512.number, 4096, b"salt", salted)])
        (result,) = (await self.call(self.link(client_security_of("LOGIN", "SASL_PLAINTEXT")), request)).results
        assert not result.error_code


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = await Harness().begin()
    yield harness
    harness.broker.crash()


async def test_a_node_authenticates_by_every_mechanism(harness: Harness) -> None:
    await harness.give_password()
    for mechanism in MECHANISMS:
        assert await harness.known(harness.link(client_security_of("LOGIN", "SASL_PLAINTEXT", mechanism, harness.clock.now_ms())))
    assert not await harness.known(harness.link(None, "PLAINTEXT"))


async def test_an_unauthenticated_follower_fetches_nothing(harness: Harness) -> None:
    node = harness.link(client_security_of("LOGIN", "SASL_PLAINTEXT"))
    created = await harness.call(node, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
    assert not created.topics[0].error_code

    async def fetched(link: Link) -> Any:
        answer = await harness.call(link, fetch_of(7), 12)
        return answer if isinstance(answer, Exception) else answer.responses[0].partitions[0].error_code

    assert await fetched(node) == ErrorCode.NOT_LEADER_OR_FOLLOWER  # authenticated, but not a replica
    assert isinstance(await fetched(harness.link(None)), LinkBroken)
    assert await fetched(harness.link(None, "PLAINTEXT")) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_failed_authentication_is_logged_and_retried(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    link = harness.link(client_security_of("LOGIN", "SASL_PLAINTEXT", "SCRAM-SHA-512"))
    failure = await harness.call(link, EVERYTHING)
    assert isinstance(failure, AuthenticationFailed)
    why = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"
    assert why in str(failure)
    assert f"Connection to node 7 failed authentication due to: broker:9092: '{why}'" in caplog.text
    assert SCRAM_PASSWORD not in caplog.text
    await harness.give_password()
    harness.clock.advance(2_000)
    assert await harness.known(link)


async def test_the_peers_error_takes_precedence_over_its_close() -> None:
    harness = LinkHarness()

    class Refusing(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.client = cast(MemoryTransport, transport).other.protocol

        def data_received(self, data: bytes) -> None:
            header = decode_request(memoryview(data)[4:]).header
            answer = SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ["X"])
            written = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
            self.client.data_received(b"".join(written))
            self.client.connection_lost(None)  # in the same turn, as a socket may report it

    await harness.network.listen("broker", 9092).accept(Refusing, 10)
    common: dict[str, Any] = {"clock": harness.clock, "timers": harness.timers, "random": Random(1), "client_id": "broker-7"}
    link = SecuredNodeClient(
        Node(7, "broker", 9092), client_security=client_security_of("A", "SASL_PLAINTEXT"), network=harness.network, **common
    )
    failure = await harness.outcome(asyncio.ensure_future(link.call(EVERYTHING, timeout_ms=10_000)))
    assert isinstance(failure, AuthenticationFailed)
    assert "enabled mechanisms are ['X']" in str(failure)


async def test_a_long_password_hash_does_not_block_other_connections() -> None:
    harness, bodies, proved = LinkHarness(), [], asyncio.Event()

    class Demanding(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.client = cast(MemoryTransport, transport).other.protocol

        def data_received(self, data: bytes) -> None:
            request = decode_request(memoryview(data)[4:])
            header, body = request.header, request.body
            bodies.append(body)
            if isinstance(body, SaslHandshakeRequest):
                answer: Any = SaslHandshakeResponse(0, ["SCRAM-SHA-512"])
            elif len(bodies) > 2:
                proved.set()
                return
            else:
                nonce = bytes(body.auth_bytes).decode().rpartition("r=")[2]
                answer = SaslAuthenticateResponse(auth_bytes=f"r={nonce}x,s=c2FsdA==,i=4096,i=300000".encode())
            self.client.data_received(b"".join(encode_response(header.api_key, header.api_version, header.correlation_id, answer)))

    await harness.network.listen("broker", 9092).accept(Demanding, 10)
    common: dict[str, Any] = {"clock": harness.clock, "timers": harness.timers, "random": Random(1), "client_id": "broker-7"}
    client_security = client_security_of("A", "SASL_PLAINTEXT", "SCRAM-SHA-512")
    link = SecuredNodeClient(Node(7, "broker", 9092), client_security=client_security, network=harness.network, **common)
    call = asyncio.ensure_future(link.call(EVERYTHING, timeout_ms=10_000))
    await settle()
    assert len(bodies) == 2
    await proved.wait()
    link.close()
    assert isinstance(await harness.outcome(call), LinkBroken)


async def test_an_unsupported_mechanism_is_reported_with_the_enabled_ones(harness: Harness) -> None:
    other = jaas("scram.ScramLoginModule", 'username="node" password="x"')
    ours = {"listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-256", "listener.name.login.scram-sha-256.sasl.jaas.config": other}
    failure = await harness.call(harness.link(client_security_of("LOGIN", "SASL_PLAINTEXT", "SCRAM-SHA-256", ours=ours)), EVERYTHING)
    assert isinstance(failure, AuthenticationFailed)
    assert "Client SASL mechanism 'SCRAM-SHA-256' not enabled in the server, enabled mechanisms are" in str(failure)
    assert all(mechanism in str(failure) for mechanism in MECHANISMS)


async def test_a_session_is_renewed_on_the_same_connection_before_it_expires(harness: Harness) -> None:
    link = harness.link(client_security_of("LOGIN", "SASL_PLAINTEXT"))
    assert await harness.known(link)
    for _ in range(30):
        harness.clock.advance(9_000)
        calls = [asyncio.ensure_future(link.call(MetadataRequest(topics=[]), timeout_ms=10_000)) for _ in range(3)]
        await settle()
        assert all(call.result().brokers for call in calls)
    assert harness.broker.connections_made == 1


async def test_a_failed_reauthentication_ends_the_connection(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    await harness.give_password()
    link = harness.link(client_security_of("LOGIN", "SASL_PLAINTEXT", "SCRAM-SHA-512"))
    assert await harness.known(link)
    taken = AlterUserScramCredentialsRequest([ScramCredentialDeletion(USER, SHA_512.number)], [])
    await harness.call(harness.link(client_security_of("LOGIN", "SASL_PLAINTEXT")), taken)
    harness.clock.advance(96_000)
    await settle()
    harness.clock.advance(200)
    await settle()
    assert "failed authentication due to: broker:9092: 'Authentication failed during re-authentication" in caplog.text
    assert isinstance(await harness.call(link, EVERYTHING), AuthenticationFailed)
    await harness.give_password()
    harness.clock.advance(2_000)
    assert await harness.known(link)


async def test_close_during_authentication_leaves_no_task_behind(harness: Harness) -> None:
    link = harness.link(client_security_of("LOGIN", "SASL_PLAINTEXT", "SCRAM-SHA-512"))  # whose rejection is delayed
    call = asyncio.ensure_future(link.call(EVERYTHING, timeout_ms=10_000))
    await settle()
    link.close()
    assert isinstance(await harness.outcome(call), LinkBroken)
    assert harness.broker.connection_count == 0


# --- TLS -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


Ports = dict[str, int]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory, made: Certificates) -> Iterator[Ports]:
    """A broker whose listener OTHER has the certificate of another host, and PLAINTEXT no TLS."""
    names = {"SECURE": "SASL_SSL", "OTHER": "SASL_SSL", "MUTUAL": "SSL", "PLAINTEXT": "PLAINTEXT"}
    given = {
        **made.pem_settings(),
        **log_ins("SECURE"),
        **log_ins("OTHER"),
        **AUTHORIZER,
        "listeners": ",".join(f"{name}://{HOST}:0" for name in names),
        "listener.security.protocol.map": ",".join(map(":".join, names.items())),
        "listener.name.other.ssl.keystore.location": str(made.of("other", "other.example.org")),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
    }
    with RunningBroker(tmp_path_factory.mktemp("broker") / "data", given) as running:
        yield {at.name: at.port for at in running.call(lambda broker: list(broker.services.listeners))}


class OverSockets:
    """Makes links over real sockets to the listeners of one broker."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._clock, self._timers = Clock(), Timers()

    async def known(self, at: str, client_security: ClientSecurity) -> bool:
        """Return whether the broker authenticates the client at listener `at`. Raises LinkBroken."""
        driver = TimerDriver(self._timers, self._clock)
        driver.start()
        node = Node(7, HOST, self._ports[at])
        common: dict[str, Any] = {"clock": self._clock, "timers": self._timers, "random": Random(1), "client_id": "broker-7"}
        link = SecuredNodeClient(node, client_security=client_security, network=Sockets(), **common)
        try:
            return not (await link.call(EVERYTHING, timeout_ms=20_000)).error_code
        finally:
            link.close()
            driver.stop()


LOOPS = pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])


@LOOPS
def test_a_node_authenticates_through_tls_by_password_and_by_certificate(ports: Ports, made: Certificates, loop: Any) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        there = OverSockets(ports)
        assert runner.run(there.known("SECURE", client_security_of("SECURE", "SASL_SSL", ours=made.pem_settings())))
        own = {**made.pem_settings(), "ssl.keystore.location": str(made.of("node", HOST, common_name=USER))}
        assert runner.run(there.known("MUTUAL", client_security_of("MUTUAL", "SSL", ours=own)))
        unnamed = client_security_of("OTHER", "SASL_SSL", ours={**made.pem_settings(), "ssl.endpoint.identification.algorithm": ""})
        assert runner.run(there.known("OTHER", unnamed))


@LOOPS
def test_a_node_rejects_another_host_and_another_authority(
    ports: Ports, made: Certificates, tmp_path: Path, loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    strange = Certificates(tmp_path).pem_settings()
    without = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(made.ca)}
    cases = [
        ("OTHER", client_security_of("OTHER", "SASL_SSL", ours=made.pem_settings()), "SSL handshake failed: IP address mismatch"),
        ("SECURE", client_security_of("SECURE", "SASL_SSL", ours=strange), "SSL handshake failed: unable to get local issuer certificate"),
        ("MUTUAL", client_security_of("MUTUAL", "SSL", ours=without), "(?i)certificate required"),
    ]
    with asyncio.Runner(loop_factory=loop) as runner, caplog.at_level(logging.ERROR):
        for at, client_security, words in cases:
            with pytest.raises(LinkBroken, match=words) as caught:
                runner.run(OverSockets(ports).known(at, client_security))
            is_logged = f"Connection to node 7 failed authentication due to: {caught.value}" in caplog.text
            assert is_logged is isinstance(caught.value, AuthenticationFailed)
        with pytest.raises(LinkBroken, match="the peer closed the connection during the TLS handshake"):
            runner.run(OverSockets(ports).known("PLAINTEXT", client_security_of("PLAINTEXT", "SASL_SSL", ours=made.pem_settings())))

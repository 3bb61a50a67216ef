"""A gateway that ends a client's TLS, uses its own TLS towards the cluster, and passes SASL through."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError

from ottla.broker.core.peer_log import PEERS
from ottla.broker.gateway.address_book import Address
from ottla.broker.net.gateway import GatewaySettings
from ottla.broker.testing.in_process import InProcessBroker
from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.protocol.client import Client
from ottla.protocol.codec import encode_request
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.certificates import Certificates
from tests.support.running_broker import HOST, RunningBroker

USERS = {"ann": "secret"}


def server_tls(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)
    return context


def test_tls_ends_at_the_gateway(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    trusting = ssl.create_default_context(cafile=certificates.ca)
    with RunningBroker(tmp_path / "data") as broker:
        settings = GatewaySettings([Address(HOST, broker.port)], port=0, client_tls=server_tls(certificates))
        with InProcessGateway(settings=settings) as gateway:
            for port in (gateway.node.ports[0], *gateway.node.book.ports.values()):
                with Client(HOST, port, wrap=lambda plain: trusting.wrap_socket(plain, server_hostname=HOST)) as client:
                    assert client.call(MetadataRequest([])).brokers
            with Client(HOST, gateway.node.ports[0]) as plain, pytest.raises(ConnectionError):
                plain.call(MetadataRequest([]))


def test_a_client_without_tls_is_closed_at_once(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    with RunningBroker(tmp_path / "data") as broker:
        settings = GatewaySettings([Address(HOST, broker.port)], port=0, client_tls=server_tls(certificates))
        with (
            InProcessGateway(settings=settings) as gateway,
            socket.create_connection((HOST, gateway.node.ports[0]), 10) as plain,
        ):
            plain.sendall(b"".join(encode_request(MetadataRequest.API_KEY, 1, 1, "test", MetadataRequest([]))))
            with suppress(ConnectionError):
                while plain.recv(100):
                    pass


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_that_fails_authentication_gets_an_alert(
    tmp_path: Path, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger=PEERS)
    certificates = Certificates(tmp_path / "certificates")
    demanding = server_tls(certificates)
    demanding.load_verify_locations(certificates.ca)
    demanding.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=certificates.ca)
    client.maximum_version = version
    with RunningBroker(tmp_path / "data") as broker:
        settings = GatewaySettings([Address(HOST, broker.port)], port=0, client_tls=demanding)
        with (
            InProcessGateway(settings=settings) as gateway,
            socket.create_connection((HOST, gateway.node.ports[0])) as plain,
            pytest.raises(ssl.SSLError, match=r"(?i)alert"),
            client.wrap_socket(plain, server_hostname=HOST) as connected,
        ):
            connected.recv(1)
    assert "the TLS handshake failed: 'PEER_DID_NOT_RETURN_A_CERTIFICATE'" in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_gateway_opens_its_own_tls_connection_and_passes_sasl(tmp_path: Path, mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR", logger="aiokafka")  # a command that ran in this process may have silenced it
    with InProcessBroker(tmp_path / "data", tls=True, users=USERS) as broker:
        own = broker.client_properties("aiokafka", mechanism=mechanism)
        settings = GatewaySettings([Address(HOST, broker.port)], port=0, cluster_tls=own["ssl_context"])
        with InProcessGateway(settings=settings) as gateway:
            named = {**own, "bootstrap_servers": gateway.bootstrap, "security_protocol": "SASL_PLAINTEXT", "ssl_context": None}

            async def send(password: str) -> int:
                producer = AIOKafkaProducer(**{**named, "sasl_plain_password": password})
                try:
                    await producer.start()
                    return (await producer.send_and_wait("t", b"x")).offset
                finally:
                    await producer.stop()

            assert asyncio.run(send("secret")) == 0
            with pytest.raises(KafkaConnectionError):
                asyncio.run(send("wrong"))
            assert "SaslAuthenticationFailed: Authentication failed" in caplog.text


def test_a_cluster_whose_certificate_is_not_trusted_is_not_reached(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stranger = ssl.create_default_context(cafile=Certificates(tmp_path / "certificates").ca)
    with InProcessBroker(tmp_path / "data", tls=True) as broker:
        settings = GatewaySettings([Address(HOST, broker.port)], port=0, cluster_tls=stranger)
        with (
            InProcessGateway(settings=settings) as gateway,
            pytest.raises(ConnectionError),  # perhaps while the client still connects
            Client(HOST, gateway.node.ports[0]) as client,
        ):
            client.call(MetadataRequest([]))
    assert "cannot be reached" in caplog.text
    assert "name the certificate's authority by ssl.truststore.location in --to-config" in caplog.text


def test_a_cluster_without_tls_that_is_dialled_with_tls_is_not_reached(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with InProcessBroker(tmp_path / "data") as broker:
        settings = GatewaySettings([Address(HOST, broker.port)], port=0, cluster_tls=ssl.create_default_context())
        with (
            InProcessGateway(settings=settings) as gateway,
            pytest.raises(ConnectionError),  # perhaps while the client still connects
            Client(HOST, gateway.node.ports[0]) as client,
        ):
            client.call(MetadataRequest([]))
    assert "if the listener does not use TLS, correct security.protocol in --to-config" in caplog.text

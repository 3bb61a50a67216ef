from __future__ import annotations

import shutil
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.settings_load import SettingsError, load
from ottla.broker.core.timers import Timers
from ottla.broker.net.listener_authentication import AuthenticationContext, listener_authentication
from ottla.broker.net.listeners import listeners_of
from ottla.broker.security.pem import StoreError
from ottla.broker.security.tls import ListenerTls, openssl_name
from ottla.protocol.client import Client
from ottla.protocol.codec import encode_request
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message
from tests.support.certificates import Certificates
from tests.support.logins import BareConnection, authenticate, handshake, log_in, plain, secured
from tests.support.running_broker import HOST, RunningBroker
from tests.support.topic_calls import create, produce

SUITE = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@contextmanager
def broker(tmp_path: Path, made: Certificates, **others: str) -> Iterator[RunningBroker]:
    named = {name.replace("_", "."): text for name, text in others.items()}
    given = {"listeners": f"S://{HOST}:0", "listener.security.protocol.map": "S:SSL", **made.pem_settings(), **named}
    with RunningBroker(tmp_path / "data", given) as running:
        yield running


def trusting(made: Certificates, own: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=made.ca)
    if own is not None:
        context.load_cert_chain(own)
    return context


def client(running: RunningBroker, context: ssl.SSLContext) -> Client:
    return Client(HOST, running.port, wrap=lambda connected: context.wrap_socket(connected, server_hostname=HOST))


def frame(request: Message, version: int) -> bytes:
    return b"".join(encode_request(request.API_KEY, version, 1, "c", request))


def served(running: RunningBroker, context: ssl.SSLContext) -> bool:
    with client(running, context) as connection:
        return bool(connection.call(MetadataRequest(topics=[]), 1).brokers)


def test_many_successive_connections_are_served(tmp_path: Path, made: Certificates) -> None:
    context = trusting(made)
    with broker(tmp_path, made) as running:
        assert all(served(running, context) for _ in range(50))
        with client(running, context) as one, client(running, context) as other:
            assert one.call(MetadataRequest(topics=[]), 1).brokers
            assert other.call(MetadataRequest(topics=[]), 1).brokers
        running.call_until(lambda broker: broker.connection_count == 0)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_a_required_certificate_gets_an_alert(tmp_path: Path, made: Certificates, version: ssl.TLSVersion) -> None:
    without, with_, other = trusting(made), trusting(made, made.client), trusting(made, Certificates(tmp_path / "other").client)
    for context in (without, with_, other):
        context.minimum_version = context.maximum_version = version
    with broker(tmp_path, made, ssl_client_auth="required") as running:
        assert served(running, with_)
        for context in (without, other):
            with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
                served(running, context)
        assert served(running, with_)


def test_a_requested_certificate_can_be_missing_but_not_invalid(tmp_path: Path, made: Certificates) -> None:
    with broker(tmp_path, made, ssl_client_auth="requested") as running:
        assert served(running, trusting(made))
        assert served(running, trusting(made, made.client))
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            served(running, trusting(made, Certificates(tmp_path / "other").client))


def test_a_certificate_without_a_matching_rule_is_rejected(tmp_path: Path, made: Certificates) -> None:
    rules = "RULE:^CN=(ann),.*$/$1/"
    with broker(tmp_path, made, ssl_client_auth="required", ssl_principal_mapping_rules=rules) as running:
        assert served(running, trusting(made, made.client))
        with pytest.raises((ConnectionError, ssl.SSLError)):
            served(running, trusting(made, made.of("bob", "bob@example.org", common_name="bob")))


def test_bytes_that_are_not_tls_close_only_their_own_connection(tmp_path: Path, made: Certificates) -> None:
    with broker(tmp_path, made) as running:
        begun = b"\x16\x03\x01\xff\xff" + bytes(100)
        for sent in (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">ihhih", 10, 18, 0, 1, -1), begun, b"\0" * 10):
            answer = b""
            with BareConnection(running.port) as connection:
                connection.socket.sendall(sent)
                connection.socket.shutdown(socket.SHUT_WR)
                while piece := connection.socket.recv(1000):
                    answer += piece
            assert answer == b"" or sent == begun, "only what began as TLS is told that it is none"
        BareConnection(running.port).socket.close()
        assert served(running, trusting(made))
        running.call_until(lambda broker: broker.connection_count == 0)


def test_tls_at_a_plaintext_listener_closes_the_connection(tmp_path: Path, made: Certificates) -> None:
    with RunningBroker(tmp_path / "data") as running:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            served(running, trusting(made))
        with running.client() as connection:
            assert connection.call(MetadataRequest(topics=[]), 1).brokers


def test_a_connection_counts_before_its_handshake(tmp_path: Path, made: Certificates) -> None:
    with broker(tmp_path, made, max_connections_per_ip="2") as running:
        with BareConnection(running.port), BareConnection(running.port):
            running.call_until(lambda broker: broker.connection_count == 2)
            with pytest.raises((ConnectionError, ssl.SSLError)):
                served(running, trusting(made))
        running.call_until(lambda broker: broker.connection_count == 0)
        assert served(running, trusting(made))


def test_a_connection_without_a_handshake_is_idle_and_does_not_delay_a_stop(tmp_path: Path, made: Certificates) -> None:
    with broker(tmp_path, made, connections_max_idle_ms="500") as running:
        with BareConnection(running.port) as silent:
            assert silent.receive() is None
        halfway = BareConnection(running.port)
        halfway.socket.sendall(b"\x16\x03\x01")
        running.call_until(lambda broker: broker.connection_count == 1)
    assert halfway.receive() is None
    halfway.socket.close()


def test_large_responses_are_complete_and_output_to_a_client_that_does_not_read_is_bounded(tmp_path: Path, made: Certificates) -> None:
    context, record = trusting(made), b"x" * 900_000
    with broker(tmp_path, made) as running, client(running, context) as connection:
        create(connection, "t")
        for _ in range(8):
            produce(connection, "t", record)
        fetch = FetchRequest(
            max_wait_ms=100, min_bytes=1, max_bytes=10**8, topics=[FetchTopic("t", partitions=[FetchPartition(partition_max_bytes=10**8)])]
        )
        response = connection.call(fetch, 12)
        assert len(response.responses[0].partitions[0].records) > 8 * len(record)
        with client(running, context) as lazy:
            for _ in range(20):
                lazy.send(fetch, 12)
            running.call_until(lambda broker: broker.buffered_bytes > limits.WRITE_HIGH_BYTES)
            assert running.call(lambda broker: broker.buffered_bytes) < 5 * len(record) * 8
            assert connection.call(MetadataRequest(topics=[]), 1).brokers


@pytest.mark.parametrize("tells", [True, False])
def test_requests_before_the_end_are_handled_and_nothing_is_sent_to_a_closed_peer(
    tmp_path: Path, made: Certificates, caplog: pytest.LogCaptureFixture, tells: bool
) -> None:
    """More requests than one turn handles are followed directly by TLS's closing alert (`tells`), or by the end of the connection."""
    batch = build_batch([SimpleRecord(None, b"v")])
    sent = frame(ProduceRequest(acks=0, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]), 9)
    with broker(tmp_path, made) as running:
        with client(running, trusting(made)) as connection:
            create(connection, "t")
        with trusting(made).wrap_socket(socket.create_connection((HOST, running.port)), server_hostname=HOST) as going:
            going.sendall(frame(MetadataRequest(topics=None), 1))
            going.recv(10_000)
            going.sendall(sent * 2_000 + (frame(MetadataRequest(topics=None), 1) * 2_000 if tells else b""))
            if tells:
                going.unwrap()
        running.call_until(lambda broker: broker.connection_count == 0)
        assert running.topics.end_offset("t") == 2_000
    assert [record for record in caplog.records if record.name == "asyncio"] == []


def test_sasl_over_tls_works_and_its_rejection_arrives(tmp_path: Path, made: Certificates) -> None:
    given = {**secured("SASL_SSL"), **made.pem_settings()}
    with RunningBroker(tmp_path / "data", given) as running:
        with client(running, trusting(made)) as connection:
            assert log_in(connection).error_code == 0
            assert connection.call(MetadataRequest(topics=[]), 1).brokers
        with client(running, trusting(made)) as connection:
            handshake(connection)
            assert authenticate(connection, plain(password="nope")).error_message == "Authentication failed: Invalid username or password"
            with pytest.raises((ConnectionError, ssl.SSLError)):
                connection.call(MetadataRequest(topics=[]), 1)


def listener_tls(made: Certificates, **given: str) -> ListenerTls:
    settings = load({**made.pem_settings(), **{name.replace("_", "."): text for name, text in given.items()}}, {}, None).settings
    return ListenerTls(ListenerSecurity(settings, "S"), "none", lambda path: Path(path).read_bytes())


@pytest.mark.parametrize(
    ("given", "oldest", "newest"),
    [
        ({}, "TLSv1_2", "TLSv1_3"),
        ({"ssl_enabled_protocols": "TLSv1.3"}, "TLSv1_3", "TLSv1_3"),
        ({"ssl_enabled_protocols": "TLSv1,TLSv1.2"}, "TLSv1_2", "TLSv1_2"),
        ({"ssl_cipher_suites": SUITE}, "TLSv1_2", "TLSv1_2"),
        ({"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"}, "TLSv1_3", "TLSv1_3"),
    ],
)
def test_tls_versions_follow_the_settings(made: Certificates, given: dict[str, str], oldest: str, newest: str) -> None:
    context = listener_tls(made, **given).context
    assert (context.minimum_version.name, context.maximum_version.name) == (oldest, newest)


def test_cipher_suites_follow_the_setting_under_javas_names(tmp_path: Path, made: Certificates) -> None:
    with broker(tmp_path, made, ssl_cipher_suites=SUITE) as running:
        with trusting(made).wrap_socket(socket.create_connection((HOST, running.port)), server_hostname=HOST) as connection:
            assert connection.cipher() == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)
        context = trusting(made)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            served(running, context)


def test_a_dhe_suite_can_be_negotiated(tmp_path: Path, made: Certificates) -> None:
    server, suite = made.of("rsa", HOST, rsa=True), "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"
    with broker(tmp_path, made, ssl_keystore_location=str(server), ssl_cipher_suites=suite) as running:
        context = trusting(made)
        context.set_ciphers(openssl_name(suite))
        with context.wrap_socket(socket.create_connection((HOST, running.port)), server_hostname=HOST) as connection:
            assert connection.cipher() == ("DHE-RSA-AES256-GCM-SHA384", "TLSv1.2", 256)


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
    ],
)
def test_a_suite_has_an_openssl_name(suite: str, name: str) -> None:
    assert openssl_name(suite) == name
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(name)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ssl_cipher_suites": "TLS_NULL_WITH_NULL_NULL"}, r"ssl\.cipher\.suites: TLS_NULL_WITH_NULL_NULL is not supported"),
        ({"ssl_cipher_suites": "ECDHE-RSA-AES128-GCM-SHA256"}, "is not supported"),
        ({"ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"}, "name all three or none"),
        ({"ssl_enabled_protocols": "TLSv1.1"}, r"ssl\.enabled\.protocols=TLSv1\.1 enables no supported version"),
        ({"ssl_enabled_protocols": "TLSv1.3", "ssl_cipher_suites": SUITE}, "enables no supported version"),
        ({"ssl_keystore_location": "/no/such/file"}, "No such file"),
        ({"ssl_keystore_location": ""}, r"neither ssl\.keystore\.location nor ssl\.keystore\.key is set"),
        ({"ssl_principal_mapping_rules": "NOTHING"}, "Invalid rule"),
    ],
)
def test_unsupported_tls_settings_stop_the_start(made: Certificates, given: dict[str, str], words: str) -> None:
    named = {name.replace("_", "."): text for name, text in given.items()}
    settings = load({"listeners": "S://h:1", "listener.security.protocol.map": "S:SSL", **made.pem_settings(), **named}, {}, None).settings
    around = AuthenticationContext(lambda _kind, _name, _by_token: None, lambda _bits: 1, VirtualClock(), Timers())
    with pytest.raises(SettingsError, match=rf"listeners: TLS of S cannot be configured: .*{words}"):
        listener_authentication(settings, listeners_of(settings), around)


@pytest.mark.parametrize(("own", "wanted"), [(None, ssl.CERT_NONE), ("required", ssl.CERT_REQUIRED)])
def test_a_sasl_listener_requests_certificates_only_by_its_own_setting(made: Certificates, own: str | None, wanted: ssl.VerifyMode) -> None:
    given = {**secured("SASL_SSL"), **made.pem_settings(), "ssl.client.auth": "required"}
    if own is not None:
        given["listener.name.secure.ssl.client.auth"] = own
    settings = load(given, {}, None).settings
    around = AuthenticationContext(lambda _kind, _name, _by_token: None, lambda _bits: 1, VirtualClock(), Timers())
    tls = listener_authentication(settings, listeners_of(settings), around)["SECURE"].tls
    assert tls is not None
    assert tls.context.verify_mode is wanted


def test_the_principal_is_the_certificates_name_in_javas_format(made: Certificates) -> None:
    tls = listener_tls(made)
    assert tls.principal_name(None) == "ANONYMOUS"
    der = ssl.PEM_cert_to_DER_cert(
        made.client.read_text().partition("-----BEGIN CERTIFICATE")[1]
        + made.client.read_text().partition("-----BEGIN CERTIFICATE")[2].partition("-----END CERTIFICATE-----")[0]
        + "-----END CERTIFICATE-----\n"
    )
    assert tls.principal_name(der).startswith("CN=ann,")
    assert tls.principal_name(der).endswith("O=Ottla's\\, tests")


WEAK = {"sha1": ("sha1", 2048), "a short key": ("sha256", 1024), "both": ("sha1", 1024)}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates that cryptography refuses to make")
@pytest.mark.parametrize("name", list(WEAK))
def test_a_weak_certificate_that_the_jvm_accepts_is_served(tmp_path: Path, made: Certificates, name: str) -> None:
    digest, bits = WEAK[name]
    weak = made.weak(f"{digest}-{bits}", digest, bits)
    context = ssl.create_default_context(cafile=weak.with_name(f"{weak.stem}-ca.pem"))
    context.check_hostname = False
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with broker(tmp_path, made, ssl_keystore_location=str(weak)) as running:
        assert served(running, context)
        with pytest.raises(ssl.SSLError):
            served(running, trusting(made))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates that cryptography refuses to make")
def test_versions_and_cipher_suites_are_unchanged_by_a_weak_certificate(made: Certificates) -> None:
    weak = str(made.weak("suites", "sha1"))
    for given in ({}, {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"}):
        strong, weakened = listener_tls(made, **given).context, listener_tls(made, **{**given, "ssl.keystore.location": weak}).context
        assert [suite["name"] for suite in weakened.get_ciphers()] == [suite["name"] for suite in strong.get_ciphers()]
        assert (weakened.minimum_version, weakened.maximum_version) == (strong.minimum_version, strong.maximum_version)
        assert (strong.security_level, weakened.security_level) == (2, 0)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates that cryptography refuses to make")
@pytest.mark.parametrize(("digest", "bits", "why"), [("md5", 2048, "signed with md5"), ("sha256", 768, "RSA key has 768 bits")])
def test_a_certificate_that_is_too_weak_for_the_jvm_stops_the_start(made: Certificates, digest: str, bits: int, why: str) -> None:
    with pytest.raises(StoreError, match=f"{why}.*renew it"):
        listener_tls(made, ssl_keystore_location=str(made.weak(f"{digest}-{bits}", digest, bits)))

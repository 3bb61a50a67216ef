from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from ottla.broker.core.settings_load import SettingsError
from ottla.broker.development_security import make_development_security
from ottla.broker.security.client_properties import ClientConnection, as_lines, client_properties
from ottla.broker.security.generated_tls import generated_tls
from ottla.broker.testing.in_process import HOST, InProcessBroker
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.logins import ScramClient, authenticate, handshake, log_in, plain

NOW_MS = 1_800_000_000_000
YEAR_MS = 365 * 86_400_000


def test_a_broker_with_development_security_accepts_only_its_users(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data", tls=True, users={"alice": 'se"cret', "bob": "b"}) as broker:
        properties = broker.client_properties("librdkafka", "bob", "PLAIN")
        context = ssl.create_default_context(cafile=properties["ssl.ca.location"])

        def client() -> Client:
            return Client(HOST, broker.port, wrap=lambda connected: context.wrap_socket(connected, server_hostname=HOST))

        with client() as connection:
            assert log_in(connection, plain(properties["sasl.username"], properties["sasl.password"])).error_code == 0
            assert connection.call(MetadataRequest([]), 1).brokers
        for password, comes_in in (('se"cret', True), ("nope", False)):
            with client() as connection:
                scram = ScramClient("alice", password)
                handshake(connection, "SCRAM-SHA-256")
                first = authenticate(connection, scram.first())
                assert (authenticate(connection, scram.final(bytes(first.auth_bytes))).error_code == 0) is comes_in


def test_the_certificate_is_kept_until_it_is_old_or_the_names_change(tmp_path: Path) -> None:
    def made(now_ms: int, *names: str) -> bytes:
        return generated_tls(tmp_path / "tls", names, now_ms).server.read_bytes()

    first = made(NOW_MS, "localhost", "127.0.0.1", "::1")
    assert made(NOW_MS + YEAR_MS // 2, "localhost", "127.0.0.1", "::1") == first
    later = made(NOW_MS + YEAR_MS - 86_400_000, "localhost", "127.0.0.1", "::1")
    assert later != first
    assert made(NOW_MS + YEAR_MS, "localhost") != later
    assert stat.S_IMODE((tmp_path / "tls" / "server.pem").stat().st_mode) == 0o600
    assert "PRIVATE" not in (tmp_path / "tls" / "ca.pem").read_text()


def test_a_damaged_certificate_is_replaced(tmp_path: Path) -> None:
    files = generated_tls(tmp_path / "tls", ["localhost"], NOW_MS)
    files.server.write_text("nonsense")
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(generated_tls(tmp_path / "tls", ["localhost"], NOW_MS).server)


@pytest.mark.parametrize(
    ("protocol", "tls", "users", "words"),
    [
        ("PLAINTEXT", False, {"alice": "pw"}, "users are given .* but no listener authenticates clients with SASL"),
        ("SSL", True, {"alice": "pw"}, "users are given"),
        ("SASL_PLAINTEXT", True, {"alice": "pw"}, "--tls is given, but no listener uses TLS"),
        ("PLAINTEXT", True, {}, "--tls is given"),
    ],
)
def test_contradictory_security_settings_stop_the_start(
    tmp_path: Path, protocol: str, tls: bool, users: dict[str, str], words: str
) -> None:
    settings = {"listener.security.protocol.map": f"SECURE:{protocol}"}
    with (
        pytest.raises(SettingsError, match=rf"listener\.security\.protocol\.map=SECURE:{protocol}: {words}"),
        InProcessBroker(tmp_path / "data", settings, tls=tls, users=users),
    ):
        pass


@pytest.mark.parametrize(
    ("connection", "protocol"),
    [
        (ClientConnection("h:1"), "PLAINTEXT"),
        (ClientConnection("h:1", "/ca"), "SSL"),
        (ClientConnection("h:1", None, "ann", "p"), "SASL_PLAINTEXT"),
        (ClientConnection("h:1", "/ca", "ann", "p"), "SASL_SSL"),
    ],
)
def test_the_security_protocol_follows_from_the_options(connection: ClientConnection, protocol: str) -> None:
    assert connection.protocol == protocol
    for kind in ("java", "librdkafka"):
        assert client_properties(kind, connection)["security.protocol"] == protocol


def test_a_password_with_quotes_goes_through_a_file_of_properties_and_jaas() -> None:
    import javaproperties

    from ottla.broker.security.jaas import login_modules

    password = 'a"b\\c;é'
    lines = as_lines(client_properties("java", ClientConnection("h:1", None, "ann", password)))
    (module,) = login_modules(javaproperties.loads("\n".join(lines))["sasl.jaas.config"])
    assert module.options == {"username": "ann", "password": password}


def test_an_unknown_client_kind_or_user_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'ruby' is not a kind of client: allowed are java, librdkafka, kafka-python, aiokafka"):
        client_properties("ruby", ClientConnection("h:1"))
    lock = make_development_security(tmp_path / "data", NOW_MS, tls=False, users={"alice": "a"})
    with pytest.raises(ValueError, match="unknown user 'eve'; known users: alice"):
        lock.connection("h:1", "eve")
    with pytest.raises(ValueError, match="unknown SASL mechanism 'scram'; use one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
        lock.connection("h:1", "alice", "scram")
    assert not (tmp_path / "data.tls").exists()


def test_the_printed_settings_cover_every_kind_of_client(tmp_path: Path) -> None:
    text = make_development_security(tmp_path / "data", NOW_MS, tls=True, users={"alice": "a"}).client_configuration("h:1")
    for word in ("sasl.jaas.config=", "ssl.ca.location=", "sasl_plain_username='alice'", "ssl_context=ssl.create_default_context("):
        assert word in text

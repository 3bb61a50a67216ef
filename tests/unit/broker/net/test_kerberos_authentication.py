"""GSSAPI listeners with a real keytab and real tickets, without a connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client_compat.support.kerberos import Realm, in_environment
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.settings_load import SettingsError, load
from ottla.broker.core.timers import Timers
from ottla.broker.net.client_security import ClientSasl
from ottla.broker.net.listener_authentication import AuthenticationContext, listener_authentication
from ottla.broker.net.listeners import listeners_of
from ottla.broker.security.mechanism import InvalidSaslMessage, MakeMechanism, SaslError
from ottla.protocol.login import NotTrusted
from tests.support.inter_broker_security import client_security_of
from tests.support.kerberos import realm_or_skip

AROUND = AuthenticationContext(lambda _kind, _name, _by_token: None, lambda _bits: 1, VirtualClock(0), Timers())
BROKER = "kafka/localhost"
JAAS = "listener.name.secure.gssapi.sasl.jaas.config"
KERBEROS = {
    "listeners": "SECURE://h:1",
    "listener.security.protocol.map": "SECURE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
}
RULES = "sasl.kerberos.principal.to.local.rules"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with realm_or_skip(tmp_path_factory.mktemp("kerberos"), [BROKER, "ann", "eve/x"]) as running:
        yield running


@pytest.fixture
def given(realm: Realm) -> dict[str, str]:
    return {**KERBEROS, JAAS: realm.jaas(BROKER)}


def mechanism_of(given: dict[str, str], env: dict[str, str] | None = None) -> MakeMechanism:
    settings = load(given, env or {}, None).settings
    sasl = listener_authentication(settings, listeners_of(settings), AROUND)["SECURE"].sasl
    assert sasl is not None
    return sasl.mechanisms["GSSAPI"]


def begun(realm: Realm, user: str = "ann") -> tuple[Any, bytes]:
    """Return a client's GSSAPI context and its first token."""
    import gssapi

    store = {"client_keytab": str(realm.keytab(user)), "ccache": realm.tickets(user)}
    name = gssapi.Name(f"{user}@{realm.name}", gssapi.NameType.kerberos_principal)
    service = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
    credentials = gssapi.Credentials(name=name, usage="initiate", store=store)
    context = gssapi.SecurityContext(name=service, creds=credentials, usage="initiate")
    token = context.step()
    assert token is not None
    return context, token


def test_a_ticket_identifies_the_client_and_no_security_layer_is_offered(realm: Realm, given: dict[str, str]) -> None:
    mechanism = mechanism_of(given)()
    context, token = begun(realm)
    context.step(mechanism.evaluate(token))
    offer = mechanism.evaluate(b"")
    assert context.unwrap(offer).message == b"\1\1\0\0"
    assert not mechanism.complete
    assert mechanism.evaluate(context.wrap(b"\1\0\0\0somebody else", False).message) is None
    assert (mechanism.complete, mechanism.user, mechanism.expires_ms, mechanism.by_token) == (True, "ann", None, False)


def test_a_ticket_cannot_be_used_twice(realm: Realm, given: dict[str, str]) -> None:
    make = mechanism_of(given)
    _, token = begun(realm)
    make().evaluate(token)
    with pytest.raises(SaslError, match="replay"):
        make().evaluate(token)


@pytest.mark.parametrize(
    ("rules", "user", "named"),
    [("DEFAULT", "eve/x", "eve"), ("RULE:[2:$1.$2]/U, DEFAULT", "eve/x", "EVE.X"), ("RULE:[2:$1]", "ann", None)],
)
def test_rules_map_the_principal_to_a_user(realm: Realm, given: dict[str, str], rules: str, user: str, named: str | None) -> None:
    mechanism = mechanism_of({**given, f"listener.name.secure.{RULES}": rules})()
    context, token = begun(realm, user)
    context.step(mechanism.evaluate(token))
    mechanism.evaluate(b"")
    mechanism.evaluate(context.wrap(b"\1\0\0\0", False).message)
    assert (mechanism.complete, mechanism.user) == (True, named)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda _: b"", SaslError),
        (lambda _: b"NTLMSSP\0\1\0\0\0", SaslError),
        (lambda token: token[17:], SaslError),
        (lambda token: token[:-20], SaslError),
        (lambda token: token[:-1] + bytes([token[-1] ^ 1]), SaslError),
        (lambda token: token + bytes(400_000), SaslError),
    ],
)
def test_an_invalid_ticket_is_rejected(
    realm: Realm, given: dict[str, str], spoil: Callable[[bytes], bytes], error: type[Exception]
) -> None:
    _, token = begun(realm)
    with pytest.raises(error):
        mechanism_of(given)().evaluate(spoil(token))


@pytest.mark.parametrize(
    ("choice", "error"), [(b"", InvalidSaslMessage), (b"\1\0\0", InvalidSaslMessage), (b"\2\0\0\0", SaslError), (None, SaslError)]
)
def test_a_client_must_choose_the_offered_layer(realm: Realm, given: dict[str, str], choice: bytes | None, error: type[Exception]) -> None:
    mechanism = mechanism_of(given)()
    context, token = begun(realm)
    context.step(mechanism.evaluate(token))
    mechanism.evaluate(b"")
    with pytest.raises(error):
        mechanism.evaluate(b"\1\0\0\0" if choice is None else context.wrap(choice, False).message)
    assert not mechanism.complete


@pytest.mark.parametrize(
    ("setting", "change", "words"),
    [
        (JAAS, ("useKeyTab=true", ""), rf"{JAAS} needs useKeyTab=true: a broker's key must come from a keytab"),
        (JAAS, ("storeKey=true", "storeKey=false"), f"{JAAS} needs storeKey=true"),
        (JAAS, ("principal=", "name="), f'{JAAS} needs principal="kafka/host@REALM"'),
        (JAAS, ("kafka/localhost@", "kafka/local/host@"), "Principal has name with unexpected format kafka/local/host@"),
        (
            JAAS,
            ("kafka/localhost@", "kafka/other@"),
            r"keyTab=.* has no usable key of principal=kafka/other@.*No key table entry",
        ),
        (
            JAAS,
            (".keytab", ".nothing"),
            r"keyTab=.*kafka_localhost\.nothing has no usable key of principal=.*not found",
        ),
        (JAAS, ("com.sun.security.auth.module.Krb5", "org.apache.kafka.common.security.plain.Plain"), "GSSAPI needs the login module"),
        (JAAS, (" ;", " serviceName=other;"), "Conflicting serviceName values found in JAAS and Kafka configs"),
        ("sasl.kerberos.service.name", ("kafka", ""), "No serviceName defined in either JAAS or Kafka config"),
        ("sasl.kerberos.service.name", ("kafka", "kafka"), None),
    ],
)
def test_an_unusable_key_stops_the_start_with_the_settings_name(
    given: dict[str, str], setting: str, change: tuple[str, str], words: str | None
) -> None:
    assert change[0] in given[setting]
    given[setting] = given[setting].replace(*change)
    if words is None:
        assert mechanism_of(given)
    else:
        with pytest.raises(SettingsError, match=words):
            mechanism_of(given)


def test_a_rewritten_keytab_is_read_at_the_next_authentication(tmp_path: Path) -> None:
    with realm_or_skip(tmp_path, [BROKER, "ann", "bob"]) as realm:
        make = mechanism_of({**KERBEROS, JAAS: realm.jaas(BROKER)})
        for user in ("ann", "bob"):
            mechanism = make()
            context, token = begun(realm, user)
            context.step(mechanism.evaluate(token))
            assert context.complete
            realm.give_new_key(BROKER)


def elsewhere(realm: Realm, who: str = BROKER, **changed: str) -> ClientSasl:
    """Return the SASL client with which a broker authenticates to other brokers as `who`."""
    given = {
        "listener.name.a.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.a.gssapi.sasl.jaas.config": realm.jaas(who),
        "sasl.kerberos.service.name": "kafka",
    }
    sasl = client_security_of("A", "SASL_PLAINTEXT", "GSSAPI", ours=given, **changed).sasl
    assert sasl is not None
    return sasl


def test_a_node_authenticates_at_others_with_its_own_key(realm: Realm, given: dict[str, str]) -> None:
    log_in = elsewhere(realm)
    try:
        for _ in range(2):
            mechanism, tokens, challenge = mechanism_of(given)(), log_in.tokens("localhost"), None
            while not mechanism.complete:
                challenge = mechanism.evaluate(next(tokens) if challenge is None else tokens.send(challenge))
            assert mechanism.user == "kafka"
            with pytest.raises(StopIteration):
                tokens.send(b"")
            realm.pause()  # for the second authentication no KDC is contacted
    finally:
        realm.resume()


def test_a_node_starts_without_a_kdc_and_contacts_it_when_it_connects(realm: Realm) -> None:
    requests = realm.request_count()
    realm.pause()
    try:
        tokens = elsewhere(realm, "eve/x").tokens("localhost")
    finally:
        realm.resume()
    assert realm.request_count() == requests
    next(tokens)
    assert realm.request_count() > requests


def test_a_node_rejects_a_peer_without_the_hosts_key(realm: Realm, given: dict[str, str]) -> None:
    with pytest.raises(NotTrusted, match=rf"Server kafka/elsewhere@{realm.name} not found"):
        next(elsewhere(realm).tokens("elsewhere"))
    for challenge in (b"", b"x", b"\x60" * 50):
        tokens = elsewhere(realm).tokens("localhost")
        next(tokens)
        with pytest.raises(NotTrusted):
            tokens.send(challenge)
    tokens, mechanism = elsewhere(realm).tokens("localhost"), mechanism_of(given)()
    tokens.send(mechanism.evaluate(next(tokens)) or b"")
    with pytest.raises(NotTrusted):
        tokens.send(b"\1\1\0\0")  # which any peer could send


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("kafka/localhost@", "kafka/other@"), r"keyTab=.* has no usable key of principal=kafka/other@"),
        ((" ;", " isInitiator=false;"), "isInitiator=false, but this node uses it to authenticate at listener A"),
        (("useKeyTab=true", ""), "needs useKeyTab=true"),
    ],
)
def test_a_node_without_usable_client_credentials_does_not_start(realm: Realm, change: tuple[str, str], words: str) -> None:
    jaas = realm.jaas(BROKER)
    assert change[0] in jaas
    with pytest.raises(SettingsError, match=words):
        elsewhere(realm, **{"listener_name_a_gssapi_sasl_jaas_config": jaas.replace(*change)})


def test_an_invalid_rule_stops_the_start(given: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=rf"{RULES} at SECURE: Invalid rule: default"):
        mechanism_of({**given, RULES: "default"})


def test_the_krb5_conf_of_kafka_opts_is_used_without_contacting_a_kdc(given: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "other.conf"
    file.write_text("[libdefaults]\ndefault_realm = ELSEWHERE\n")
    with in_environment({"KRB5_CONFIG": os.environ["KRB5_CONFIG"]}):
        mechanism_of(given, {"KAFKA_OPTS": f"-Djava.security.krb5.conf={file}"})
        assert os.environ["KRB5_CONFIG"] == str(file)
        from ottla.broker.security.kerberos import default_realm

        assert default_realm() == "ELSEWHERE"

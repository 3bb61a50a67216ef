from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.settings_load import SettingsError, load
from ottla.broker.core.timers import Timers
from ottla.broker.net.listener_authentication import AuthenticationContext, ListenerAuthentication, listener_authentication
from ottla.broker.net.listeners import listeners_of
from ottla.broker.security.mechanism import SaslAuthenticationError
from tests.support.logins import MODULES, PLAIN_JAAS, plain, secured

AROUND = AuthenticationContext(lambda _kind, _name, _by_token: None, lambda _bits: 1, VirtualClock(0), Timers())


def authentication(
    given: dict[str, str], env: dict[str, str] | None = None, more: dict[str, str] | None = None, like: str | None = None
) -> dict[str, ListenerAuthentication]:
    settings = load(given, env or {}, None, like=like).settings
    settings.users = more or {}
    return dict(listener_authentication(settings, listeners_of(settings), AROUND))


def test_a_secured_listener_has_all_its_mechanisms_and_a_plaintext_one_no_security() -> None:
    given = {
        **secured(),
        "listeners": "SECURE://h:1,PLAINTEXT://h:2",
        "listener.security.protocol.map": "SECURE:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    found = authentication(given)
    assert list(found) == ["SECURE"]
    assert found["SECURE"].sasl is not None
    assert list(found["SECURE"].sasl.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def users(given: dict[str, str], env: dict[str, str] | None = None, more: dict[str, str] | None = None) -> set[str]:
    sasl = authentication(given, env, more)["SECURE"].sasl
    assert sasl is not None
    found = set()
    for user, password in (("ann", "pass word"), ("own", "1"), ("general", "2")):
        try:
            sasl.mechanisms["PLAIN"]().evaluate(plain(user, password))
        except SaslAuthenticationError:
            continue
        found.add(user)
    return found


def test_users_come_from_the_setting_or_else_from_the_jaas_file(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    general = f'KafkaServer {{ {MODULES}.plain.PlainLoginModule required user_general="2"; }};'
    own = f'secure.KafkaServer {{ {MODULES}.plain.PlainLoginModule required user_own="1"; }};'
    env = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={file}"}
    given = secured(sasl_enabled_mechanisms="PLAIN")
    file.write_text(general + own)
    assert users(given, env) == {"ann"}
    del given["listener.name.secure.plain.sasl.jaas.config"]
    assert users(given, env) == {"own"}
    file.write_text(general)
    assert users(given, env) == {"general"}


@pytest.mark.parametrize("name", ["secur", "SECURE"])
def test_a_security_setting_for_an_unknown_listener_stops_the_start(name: str) -> None:
    setting = f"listener.name.{name}.ssl.client.auth"
    with pytest.raises(SettingsError, match=rf"{setting}: there is no listener {name}: allowed are secure"):
        authentication({**secured(), setting: "required"})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sasl.enabled.mechanisms": ""}, r"sasl\.enabled\.mechanisms is empty, but SECURE uses SASL_PLAINTEXT"),
        ({"sasl.enabled.mechanisms": "PLAIN,X"}, r"sasl\.enabled\.mechanisms=X at SECURE is not supported"),
        (
            {"connection.failed.authentication.delay.ms": "600000"},
            r"delay\.ms=600000 should always be less than connections\.max\.idle\.ms",
        ),
        ({"listener.name.secure.plain.sasl.jaas.config": "x"}, r"listener\.name\.secure\.plain\.sasl\.jaas\.config: Login module control"),
        ({"listener.name.secure.plain.sasl.jaas.config": PLAIN_JAAS * 2}, "contains 2 login modules, should be 1 module"),
        ({"listener.name.secure.plain.sasl.jaas.config": "com.example.Login required;"}, r"com\.example\.Login cannot be loaded here"),
    ],
)
def test_an_invalid_mechanism_configuration_stops_the_start_with_the_settings_name(changed: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        authentication({**secured(), **changed})


SIGNED = f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
BEARER = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.secure.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
}


def test_tokens_are_validated_by_the_brokers_clock_and_the_options() -> None:
    sasl = authentication({**secured(), **BEARER})["SECURE"].sasl
    assert sasl is not None
    header, claims = (base64.urlsafe_b64encode(text).decode().rstrip("=") for text in (b'{"alg":"none"}', b'{"sub":"ann","exp":1}'))
    mechanism = sasl.mechanisms["OAUTHBEARER"]()
    assert mechanism.evaluate(f"n,,\x01auth=Bearer {header}.{claims}.\x01\x01".encode()) == b""
    assert (mechanism.user, mechanism.expires_ms) == ("ann", 1000)


HANDLER = "listener.name.secure.oauthbearer.sasl.server.callback.handler.class"
WITH_SIGNED_TOKENS = {**secured(), **BEARER, HANDLER: SIGNED}
OUR_AUDIENCE, OUR_ISSUER = {"sasl.oauthbearer.expected.audience": "us"}, {"sasl.oauthbearer.expected.issuer": "them"}
FOR_US = WITH_SIGNED_TOKENS | OUR_AUDIENCE | OUR_ISSUER
JWKS_URL, ALLOWED = "sasl.oauthbearer.jwks.endpoint.url", "org.apache.kafka.sasl.oauthbearer.allowed.urls"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**secured(), **BEARER, JWKS_URL: "https://keys"}, "signed tokens are not validated at SECURE"),
        (
            {**secured(), **BEARER, "listener.name.secure.oauthbearer.sasl.oauthbearer.expected.issuer": "us"},
            "signed tokens are not validated",
        ),
        ({**secured(), **BEARER, "listener.name.secure.sasl.oauthbearer.expected.audience": "them"}, "signed tokens are not validated"),
        (FOR_US, r"sasl\.oauthbearer\.jwks\.endpoint\.url is required at SECURE"),
        ({**FOR_US, JWKS_URL: "ftp://keys"}, "allowed are http, https and file URLs"),
        ({**FOR_US, JWKS_URL: "file:///keys", ALLOWED: "file:///others"}, "The URL cannot be accessed due to restrictions"),
        ({**FOR_US, JWKS_URL: "file:///no/keys", ALLOWED: "x,file:///no/keys"}, "the keys cannot be read: .*No such file"),
        (
            {**FOR_US, JWKS_URL: "http://127.0.0.1:1/k", ALLOWED: "http://127.0.0.1:1/k"},
            "the keys cannot be read: .*Connection refused",
        ),
        ({**FOR_US, "sasl.oauthbearer.jwt.validator.class": "com.example.V"}, "a Java class cannot be loaded here"),
        ({**FOR_US, "sasl.oauthbearer.clock.skew.seconds": "-1"}, r"clock\.skew\.seconds=-1 at SECURE: must be at least 0"),
    ],
)
def test_settings_for_signed_tokens_without_their_handler_stop_the_start(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        authentication(given)


ANY = "sasl.oauthbearer.allow.unverified."


@pytest.mark.parametrize(
    ("claims", "lacking"),
    [
        ({}, "audience"),
        (OUR_ISSUER, "audience"),
        (OUR_AUDIENCE, "issuer"),
        ({f"{ANY}issuer": "true"}, "audience"),
        ({f"{ANY}audience": "true"}, "issuer"),
        ({f"{ANY}audience": "false", f"{ANY}issuer": "true"}, "audience"),
        (OUR_AUDIENCE | OUR_ISSUER, None),
        ({f"{ANY}audience": "true", f"{ANY}issuer": "true"}, None),
        (OUR_AUDIENCE | {f"listener.name.secure.oauthbearer.{ANY}issuer": "true"}, None),
    ],
)
def test_since_4_4_signed_tokens_need_an_expected_audience_and_issuer(tmp_path: Path, claims: dict[str, str], lacking: str | None) -> None:
    file = tmp_path / "keys.json"
    file.write_text('{"keys": []}')
    given = {**WITH_SIGNED_TOKENS, JWKS_URL: file.as_uri(), ALLOWED: file.as_uri(), **claims}
    assert authentication(given, like="4.3")
    if lacking is None:
        assert authentication(given)
        return
    with pytest.raises(SettingsError, match=rf"sasl\.oauthbearer\.expected\.{lacking} is required at SECURE"):
        authentication(given)


def test_jwks_urls_can_be_allowed_by_kafka_opts_or_by_a_setting(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text('{"keys": []}')
    given = {**FOR_US, JWKS_URL: file.as_uri()}
    assert authentication(given, {"KAFKA_OPTS": f"-Xmx1g -D{ALLOWED}=http://x,{file.as_uri()}"})
    assert authentication({**given, ALLOWED: file.as_uri()})


def test_a_mechanism_without_users_stops_the_start_in_kafkas_words(caplog: pytest.LogCaptureFixture) -> None:
    given = secured(sasl_jaas_config=PLAIN_JAAS)  # which applies to no mechanism
    del given["listener.name.secure.plain.sasl.jaas.config"]
    with pytest.raises(SettingsError, match=r"Could not find a 'KafkaServer' or 'secure\.KafkaServer' entry in the JAAS configuration"):
        authentication(given)
    assert "sasl.jaas.config without a SASL mechanism's prefix is ignored" in caplog.text
    assert "pass word" not in caplog.text


def test_development_users_are_added_to_those_of_a_listener() -> None:
    given = secured(sasl_enabled_mechanisms="PLAIN")
    assert users(given, more={"own": "1"}) == {"ann", "own"}
    del given["listener.name.secure.plain.sasl.jaas.config"]
    assert users(given, more={"own": "1"}) == {"own"}


def test_gssapi_without_its_library_stops_the_start_with_installation_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    monkeypatch.delitem(sys.modules, "ottla.broker.security.kerberos", raising=False)
    with pytest.raises(
        SettingsError, match=r"sasl\.enabled\.mechanisms=GSSAPI at SECURE needs python-gssapi: pip install 'ottla\[gssapi\]'"
    ):
        authentication({**secured(), "sasl.enabled.mechanisms": "GSSAPI"})
    given = secured()
    del given["sasl.enabled.mechanisms"]
    with pytest.raises(SettingsError, match=r"needs python-gssapi.*\(GSSAPI is Kafka's default: set sasl\.enabled\.mechanisms\)"):
        authentication(given)


def test_no_error_message_contains_a_password() -> None:
    for text in (f"{MODULES}.plain.PlainLoginModule required user_ann=1secret", 'X required password="secret";'):
        with pytest.raises(SettingsError) as caught:
            authentication(secured(**{"listener_name_secure_plain_sasl_jaas_config": text}))
        assert "secret" not in str(caught.value)

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.config_keys import ConfigType
from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.security_keys import security_key
from ottla.broker.core.settings_load import SettingsError, load

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required user_ann=secret;"


def test_listener_values_override_broker_values_and_mechanism_values_are_separate() -> None:
    given = {
        "ssl.client.auth": "required",
        "listener.name.inner.ssl.client.auth": "none",
        "listener.name.inner.scram-sha-256.connections.max.reauth.ms": "5",
        "connections.max.reauth.ms": "7",
    }
    settings = load(given, {}, None).settings
    inner, outer = ListenerSecurity(settings, "INNER"), ListenerSecurity(settings, "OUTER")
    assert (inner.value("ssl.client.auth"), outer.value("ssl.client.auth")) == ("none", "required")
    assert (inner.own("ssl.client.auth"), outer.own("ssl.client.auth")) == ("none", None)
    assert inner.of_mechanism("SCRAM-SHA-256", "connections.max.reauth.ms") == 5
    assert outer.of_mechanism("SCRAM-SHA-256", "connections.max.reauth.ms") is None
    assert (inner.number("connections.max.reauth.ms"), inner.items("sasl.enabled.mechanisms")) == (7, ("GSSAPI",))
    assert inner.text("ssl.keystore.location") is None


@pytest.mark.parametrize(
    "name",
    ["OTTLA_LISTENER_NAME_INNER_SCRAM___SHA___256_SASL_JAAS_CONFIG", "OTTLA_LISTENER_NAME_INNER_SCRAM-SHA-256_SASL_JAAS_CONFIG"],
)
def test_a_dash_in_a_name_can_be_written_two_ways_in_the_environment(name: str) -> None:
    settings = load({}, {name: JAAS}, None).settings
    assert ListenerSecurity(settings, "INNER").of_mechanism("SCRAM-SHA-256", "sasl.jaas.config") == JAAS


def test_an_underscore_in_a_listener_name_is_written_twice_in_the_environment() -> None:
    settings = load({}, {"OTTLA_LISTENER_NAME_MY__INNER_SSL_CLIENT_AUTH": "required"}, None).settings
    assert ListenerSecurity(settings, "MY_INNER").value("ssl.client.auth") == "required"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("principal.builder.class", "com.example.Principals"),
        ("ssl.engine.factory.class", "com.example.Engine"),
        ("security.providers", "com.example.Provider"),
        ("sasl.login.class", "com.example.Login"),
        ("listener.name.x.plain.sasl.server.callback.handler.class", "com.example.Users"),
        ("listener.name.x.principal.builder.class", "com.example.Principals"),
    ],
)
def test_a_custom_java_class_stops_the_start_with_the_settings_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match="a Java class cannot be loaded here") as caught:
        load({name: value}, {}, None)
    assert name in str(caught.value)
    assert value in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.client.auth", "wanted"),
        ("ssl.enabled.protocols", "SSLv3"),
        ("ssl.keystore.type", "BCFKS"),
        ("connection.failed.authentication.delay.ms", "-1"),
        ("connections.max.reauth.ms", "soon"),
    ],
)
def test_a_value_that_kafka_rejects_stops_the_start(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load({name: value}, {}, None)


@pytest.mark.parametrize(
    "name",
    [
        *("ssl.clientauth", "sasl.enabled.mechanism", "listener.name.x.ssl.clientauth", "plain.sasl.jaas.config"),
        *("sasl.kerberos.principal.to.local.rule", "listener.name.x.sasl.kerberos.servicename", "sasl.login.callback.handlers"),
        "sasl.oauthbearer.jwt.validator.clas",
    ],
)
def test_a_misspelt_security_setting_stops_the_start(name: str) -> None:
    with pytest.raises(SettingsError, match="Unknown setting"):
        load({name: "required"}, {}, None)


def test_passwords_are_sensitive_with_any_prefix() -> None:
    for name in ("ssl.key.password", "listener.name.x.ssl.keystore.key", "listener.name.x.scram-sha-512.sasl.jaas.config"):
        key = security_key(name)
        assert key is not None
        assert (key.name, key.type, key.sensitive) == (name, ConfigType.PASSWORD, True)


def test_kafka_opts_name_the_jaas_file(tmp_path: Path) -> None:
    options = f"-Xmx1g -Djava.security.auth.login.config={tmp_path / 'jaas.conf'} -Dother=1"
    assert load({}, {"KAFKA_OPTS": options}, None).settings.login_file == str(tmp_path / "jaas.conf")
    assert load({}, {"KAFKA_OPTS": '"-Djava.security.auth.login.config==/a b"'}, None).settings.login_file == "/a b"
    assert load({}, {"KAFKA_OPTS": "-Xmx1g"}, None).settings.login_file is None


def test_printed_settings_contain_no_password() -> None:
    assert "secret" not in repr(load({"listener.name.x.plain.sasl.jaas.config": JAAS, "ssl.key.password": "secret"}, {}, None).settings)

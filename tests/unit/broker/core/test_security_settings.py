from __future__ import annotations

import pytest

from ottla.broker.core.acl import super_users
from ottla.broker.core.security_settings import start_problem
from ottla.broker.core.settings_load import SettingsError, load

SECURED = [
    ("create.topic.policy.class.name", "com.example.Policy"),
    ("alter.config.policy.class.name", "com.example.Policy"),
    ("client.quota.callback.class", "com.example.Quotas"),
]

NO_AUTHENTICATION = [
    ("sasl.login.refresh.buffer.seconds", "300"),
    ("sasl.kerberos.min.time.before.relogin", "60000"),
    ("early.start.listeners", "CONTROLLER"),
    ("listener.name.external.num.network.threads", "5"),
]


@pytest.mark.parametrize(("name", "value"), SECURED)
def test_an_unsupported_security_setting_stops_the_start_without_printing_its_value(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({name: value}, {}, None)
    assert name in str(caught.value)
    assert value not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), NO_AUTHENTICATION)
def test_an_empty_security_setting_does_not_stop_the_start(name: str, value: str) -> None:
    assert start_problem(name, value) is None
    assert load({name: value}, {}, None).notes == [f"{name} (command line) is a Kafka setting that has no effect here"]


STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_kafkas_authorizer_and_super_users_are_accepted() -> None:
    loaded = load(
        {"authorizer.class.name": STANDARD, "super.users": "User:CN=a,OU=b; User:c", "allow.everyone.if.no.acl.found": "true"}, {}, None
    )
    assert loaded.settings.authorizer_class_name == STANDARD
    assert super_users(loaded.settings.super_users) == ["User:CN=a,OU=b", "User:c"]
    assert loaded.settings.allow_everyone_if_no_acl_found
    assert loaded.notes == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
        ("super.users", "alice"),
        ("super.users", "User:alice;:bob"),
        ("allow.everyone.if.no.acl.found", "yes"),
    ],
)
def test_an_unknown_authorizer_or_an_invalid_principal_stops_the_start(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name.replace(".", r"\.")):
        load({name: value}, {}, None)

from __future__ import annotations

import pytest

from ottla.broker.core.security_settings import lock_problem
from ottla.broker.core.settings_load import SettingsError, load

LOCKS = [
    ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ("super.users", "User:admin"),
    ("allow.everyone.if.no.acl.found", "false"),
    ("create.topic.policy.class.name", "com.example.Policy"),
    ("alter.config.policy.class.name", "com.example.Policy"),
]

NO_LOCKS = [
    ("authorizer.class.name", ""),
    ("super.users", " "),
    ("allow.everyone.if.no.acl.found", "true"),
    ("sasl.login.refresh.buffer.seconds", "300"),
    ("sasl.kerberos.min.time.before.relogin", "60000"),
    ("early.start.listeners", "CONTROLLER"),
    ("listener.name.external.num.network.threads", "5"),
]


@pytest.mark.parametrize(("name", "value"), LOCKS)
def test_a_lock_that_would_not_hold_stops_the_start_and_is_named_without_its_value(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({name: value}, {}, None)
    assert name in str(caught.value)
    assert value not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), NO_LOCKS)
def test_a_value_that_locks_nothing_does_not_stop_the_start(name: str, value: str) -> None:
    assert lock_problem(name, value) is None
    assert load({name: value}, {}, None).notes == [f"{name} (command line) is a setting of Kafka's that has no effect here"]

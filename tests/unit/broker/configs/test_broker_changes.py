from __future__ import annotations

import pytest

from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import ConfigRecord
from ottla.broker.configs.broker_changes import broker_key
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.releases.release_behaviour import default_behaviour
from ottla.protocol.error_codes import ErrorCode
from tests.support.catalogs import LiveCatalog

SET, DELETE, APPEND, SUBTRACT = OpType
BROKER = ResourceType.BROKER


@pytest.fixture
def live() -> LiveCatalog:
    return LiveCatalog()


def refusal(live: LiveCatalog, key: str, value: str | None, op: OpType = SET, name: str = "1") -> tuple[ErrorCode, str] | None:
    """Return (error code, message) of changing one setting of broker `name`; None if the change is accepted."""
    resource = AlterResource(BROKER, name, [ConfigOp(key, op, value)])
    (error,) = live.alter(resource)
    return None if error is None else (error.code, error.message)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num.io.threads", "16"),
        ("background.threads", "5"),
        ("log.cleaner.threads", "2"),
        ("leader.replication.throttled.rate", "1000"),
        ("follower.replication.throttled.rate", "1000"),
        ("group.coordinator.cached.buffer.max.bytes", "2000000"),
        ("listener.name.external.max.connections", "5"),
        ("no.such", "5"),
    ],
)
def test_a_dynamic_config_can_be_set_and_deleted(live: LiveCatalog, key: str, value: str) -> None:
    assert refusal(live, key, value) is None
    assert live.catalog.configs(BROKER, "1") == {key: value}
    assert refusal(live, key, None, DELETE) is None
    assert live.catalog.configs(BROKER, "1") == {}


@pytest.mark.parametrize("key", ["no.such", "node.id", "ssl.client.auth"])
def test_an_unset_config_can_be_deleted(live: LiveCatalog, key: str) -> None:
    assert refusal(live, key, None, DELETE) is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("node.id", "2", "Cannot update these configs dynamically: [node.id]"),
        ("process.roles", "broker", "Cannot update these configs dynamically: [process.roles]"),
        ("group.share.session.timeout.ms", "50000", "Cannot update these configs dynamically: [group.share.session.timeout.ms]"),
        ("log.retention.ms", "soon", "Invalid value soon for configuration log.retention.ms: Not a number of type LONG"),
        ("num.io.threads", "0", "Invalid value 0 for configuration num.io.threads: Value must be at least 1"),
        (
            "group.coordinator.cached.buffer.max.bytes",
            "1",
            "Invalid value 1 for configuration group.coordinator.cached.buffer.max.bytes: Value must be at least 524288",
        ),
    ],
)
def test_an_invalid_dynamic_change_is_refused_with_kafkas_message(live: LiveCatalog, key: str, value: str, message: str) -> None:
    assert refusal(live, key, value) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize(("value", "allowed"), [("3", False), ("4", True), ("16", True), ("17", False)])
def test_thread_counts_can_at_most_be_halved_or_doubled(live: LiveCatalog, value: str, allowed: bool) -> None:
    assert (refusal(live, "num.io.threads", value) is None) is allowed


@pytest.mark.parametrize("name", ["", "1"])
def test_an_invalid_stored_value_blocks_no_change_and_can_be_deleted(live: LiveCatalog, name: str) -> None:
    """A controller accepts any text from a client that connects to it directly, as in Kafka."""
    live.catalog.apply([ConfigRecord(BROKER, name, key, "many") for key in ("num.io.threads", "log.local.retention.ms")])
    assert refusal(live, "log.retention.ms", "60000") is None
    assert refusal(live, "num.io.threads", "16") is None
    assert refusal(live, "num.io.threads", None, DELETE, name) is None


def test_deleting_a_thread_count_cannot_more_than_halve_it(live: LiveCatalog) -> None:
    assert refusal(live, "num.io.threads", "16") is None
    assert refusal(live, "num.io.threads", "32") is None
    code, message = refusal(live, "num.io.threads", None, DELETE) or (ErrorCode.NONE, "")
    assert code is ErrorCode.INVALID_REQUEST
    assert "value should be at least half the current value 32" in message


@pytest.mark.parametrize(("value", "words"), [("0", "at least 1"), ("3", "more than double the current value 1")])
def test_the_cleaners_thread_count_has_a_separate_rule(live: LiveCatalog, value: str, words: str) -> None:
    assert words in (refusal(live, "log.cleaner.threads", value) or (0, ""))[1]


def test_each_cleaner_thread_needs_more_than_one_mebibyte(live: LiveCatalog) -> None:
    assert refusal(live, "log.cleaner.dedupe.buffer.size", "2097152") is None
    assert "at least 1MB per cleaner thread" in (refusal(live, "log.cleaner.threads", "2") or (0, ""))[1]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("max.connections", "0", "Invalid max.connections 0"),
        ("listener.name.external.max.connections", "0", "Invalid max.connections 0"),
        ("max.connection.creation.rate", "0", "Invalid max.connection.creation.rate 0"),
        ("max.connections.per.ip", "0", "only if max.connections.per.ip.overrides"),
        ("log.retention.ms", "0", "must be unlimited (-1) or, greater than or equal to 1"),
        ("log.cleanup.policy", "delete,compact,delete", "must not be duplicated"),
        ("group.consumer.assignment.interval.ms", "15001", "less than or equal to group.consumer.max.assignment.interval.ms"),
    ],
)
def test_values_that_a_running_broker_cannot_take_are_refused(live: LiveCatalog, key: str, value: str, words: str) -> None:
    code, message = refusal(live, key, value) or (ErrorCode.NONE, "")
    assert code is ErrorCode.INVALID_REQUEST
    assert words in message


def test_addresses_with_an_override_may_be_the_only_ones_with_connections(live: LiveCatalog) -> None:
    assert refusal(live, "max.connections.per.ip.overrides", "127.0.0.1:5") is None
    assert refusal(live, "max.connections.per.ip", "0") is None


@pytest.mark.parametrize(
    ("of_all", "local", "words"),
    [
        (("log.retention.ms", "3"), ("log.local.retention.ms", "5"), "Value must not be more than property: log.retention.ms value."),
        (
            ("log.retention.bytes", "3"),
            ("log.local.retention.bytes", "-1"),
            "Value must not be -1 as log.retention.bytes value is set as 3.",
        ),
    ],
)
def test_local_retention_is_limited_by_the_retention(
    live: LiveCatalog, of_all: tuple[str, str], local: tuple[str, str], words: str
) -> None:
    assert refusal(live, *of_all) is None
    refused = refusal(live, *local)
    assert refused is not None
    assert words in refused[1]
    assert refusal(live, local[0], of_all[1]) is None
    assert refusal(live, of_all[0], "2") is not None
    assert refusal(live, of_all[0], "-1") is None


def test_listener_configs_are_per_broker(live: LiveCatalog) -> None:
    name = "listener.name.external.num.io.threads"
    assert refusal(live, name, "5", name="") == (
        ErrorCode.INVALID_REQUEST,
        f"Cannot update these configs at default cluster level, broker id must be specified: [{name}]",
    )
    assert refusal(live, "listener.name.external.max.connections", "5", name="") is None


KEPT = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.kerberos.kinit.cmd": "/bin/true",
    "sasl.kerberos.min.time.before.relogin": "5",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.ticket.renew.jitter": "0.5",
    "sasl.kerberos.ticket.renew.window.factor": "0.5",
    "sasl.login.refresh.buffer.seconds": "4000",
    "sasl.login.refresh.min.period.seconds": "60",
    "sasl.login.refresh.window.factor": "0.6",
    "sasl.login.refresh.window.jitter": "0.1",
    "ssl.client.auth": "required",
    "ssl.protocol": "any",
    "ssl.cipher.suites": "any",
}


@pytest.mark.parametrize("prefix", ["", "listener.name.external."])
@pytest.mark.parametrize(("key", "value"), KEPT.items())
def test_a_security_config_is_per_broker(live: LiveCatalog, prefix: str, key: str, value: str) -> None:
    name = prefix + key
    assert refusal(live, name, value) is None
    assert live.catalog.configs(BROKER, "1") == {name: value}
    what = "Cannot update these configs at default cluster level, broker id must be specified"
    assert refusal(live, name, value, name="") == (ErrorCode.INVALID_REQUEST, f"{what}: [{name}]")


@pytest.mark.parametrize(
    "key", ["connections.max.reauth.ms", "sasl.server.max.receive.size", "ssl.principal.mapping.rules", "security.providers"]
)
def test_a_static_security_config_needs_a_listener_prefix(live: LiveCatalog, key: str) -> None:
    assert refusal(live, key, "5") == (ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{key}]")


@pytest.mark.parametrize(
    "key", ["controller.mutation.x", "share.coordinator.x", "controller.quorum.x", "zookeeper.connect", "inter.broker.protocol.version"]
)
def test_an_unknown_config_is_stored(live: LiveCatalog, key: str) -> None:
    assert refusal(live, key, "5") is None
    assert refusal(live, key, "5", name="") is None


@pytest.mark.parametrize(
    "key", ["controller.quota.window.num", "share.coordinator.threads", "controller.quorum.voters", "queued.max.requests"]
)
def test_a_static_config_is_refused(live: LiveCatalog, key: str) -> None:
    assert refusal(live, key, "5") == (ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{key}]")


@pytest.mark.parametrize("value", ["", "*", "ottla-data"])
def test_a_brokers_own_directory_can_be_cordoned(live: LiveCatalog, value: str) -> None:
    assert refusal(live, "cordoned.log.dirs", value) is None


def test_an_unknown_directory_cannot_be_cordoned(live: LiveCatalog) -> None:
    text = "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /nowhere"
    assert refusal(live, "cordoned.log.dirs", "ottla-data,/nowhere") == (ErrorCode.INVALID_REQUEST, text)


def test_a_listeners_key_stores_are_per_broker_and_can_be_set_again(live: LiveCatalog) -> None:
    name = "listener.name.external.ssl.keystore.location"
    assert refusal(live, name, "/store") is None
    before = len(live.log)
    assert refusal(live, name, "/store") is None
    assert len(live.log) == before + 1
    assert (refusal(live, "ssl.keystore.location", "/store") or [0])[0] is ErrorCode.INVALID_REQUEST
    assert "broker id must be specified" in (refusal(live, name, "/store", name="") or (0, ""))[1]


@pytest.mark.parametrize("op", [APPEND, SUBTRACT])
def test_an_unknown_config_is_not_a_list(live: LiveCatalog, op: OpType) -> None:
    assert refusal(live, "no.such", "5", op) == (ErrorCode.INVALID_CONFIG, "Unknown config name: no.such")


def test_a_listener_configs_definition_is_the_general_one() -> None:
    key = broker_key("listener.name.external.max.connections", default_behaviour())
    assert key is not None
    assert (key.name, key.parse("5")) == ("listener.name.external.max.connections", 5)
    assert broker_key("listener.name.external.no.such", default_behaviour()) is None


@pytest.mark.parametrize(
    ("base", "hidden"),
    [
        ("ssl.keystore.location", False),
        ("ssl.keystore.password", True),
        ("ssl.keystore.key", True),
        ("sasl.oauthbearer.client.credentials.client.id", False),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("sasl.oauthbearer.assertion.private.key.passphrase", True),
    ],
)
def test_a_listeners_passwords_are_hidden(base: str, hidden: bool) -> None:
    key = broker_key(f"listener.name.external.{base}", default_behaviour())
    assert key is not None
    assert key.sensitive is hidden

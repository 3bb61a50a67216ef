from __future__ import annotations

import pytest

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import ConfigRecord, TopicRecord
from ottla.broker.configs.broker_config import BrokerConfigs, ConfigSource
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.configs.describe_configs import ConfigEntry, describe_configs
from ottla.broker.core.config_keys import ConfigType
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, BrokerSettings, topic_keys
from ottla.broker.core.settings_load import load
from ottla.broker.releases.release_behaviour import behaviour_of, default_behaviour
from ottla.protocol.error_codes import ErrorCode

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER


class Described:
    """A catalog with topic `t`, and the settings of the broker with node id 1, which tests describe."""

    def __init__(self, settings: BrokerSettings | None = None) -> None:
        self.settings = settings or BrokerSettings()
        self.catalog = Catalog()
        self.catalog.apply([TopicRecord("t", b"\x05" * 16)])
        self.broker = BrokerConfigs(self.settings, self.catalog)

    def put(self, kind: int, resource: str, name: str, value: str) -> None:
        self.catalog.apply([ConfigRecord(kind, resource, name, value)])
        self.broker.refresh()

    def entries(self, kind: int, name: str, keys: list[str] | None = None) -> dict[str, ConfigEntry]:
        return {entry.name: entry for entry in describe_configs(self.catalog, self.broker, kind, name, keys)}

    def refused(self, kind: int, name: str) -> ErrorCode:
        with pytest.raises(Rejected) as error:
            self.entries(kind, name)
        return error.value.code


@pytest.fixture
def described() -> Described:
    return Described()


@pytest.mark.parametrize("keys", [None, []])
def test_without_keys_all_topic_configs_except_unset_internal_ones_are_described(keys: list[str] | None) -> None:
    assert set(Described().entries(TOPIC, "t", keys)) == set(topic_keys(BrokerSettings())) - {"internal.segment.bytes"}


def test_only_known_keys_are_described() -> None:
    assert list(Described().entries(TOPIC, "t", ["flush.ms", "no.such"])) == ["flush.ms"]


def test_a_topic_override_is_the_first_synonym() -> None:
    described = Described(BrokerSettings(message_max_bytes=10, explicit={"message.max.bytes": "file"}))
    described.put(TOPIC, "t", "max.message.bytes", "5")
    entry = described.entries(TOPIC, "t")["max.message.bytes"]
    assert (entry.value, entry.source, entry.type, entry.read_only, entry.sensitive) == (
        "5",
        ConfigSource.DYNAMIC_TOPIC,
        ConfigType.INT,
        False,
        False,
    )
    assert entry.synonyms == (
        ("max.message.bytes", "5", ConfigSource.DYNAMIC_TOPIC),
        ("message.max.bytes", "10", ConfigSource.STATIC_BROKER),
        ("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    )
    assert entry.documentation


def test_a_topic_default_given_in_another_unit_has_its_value_and_no_source() -> None:
    described = Described(BrokerSettings(log_retention_minutes=3, explicit={"log.retention.minutes": "file"}))
    entry = described.entries(TOPIC, "t")["retention.ms"]
    assert (entry.value, entry.source, entry.synonyms) == ("180000", ConfigSource.DEFAULT, ())


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, "1"), (ResourceType.GROUP, "g"), (LOGGER, "1")])
def test_configs_are_sorted_by_name(kind: int, name: str) -> None:
    names = list(Described().entries(kind, name))
    assert names == sorted(names)


def test_a_config_without_effect_is_described_with_its_value() -> None:
    described = Described(BrokerSettings(stored={"num.io.threads": 4}, explicit={"num.io.threads": "file"}))
    described.put(BROKER, "1", "num.io.threads", "6")
    entry = described.entries(BROKER, "1")["num.io.threads"]
    assert (entry.value, entry.source, entry.read_only) == ("6", ConfigSource.DYNAMIC_BROKER, False)
    assert [value for _, value, _ in entry.synonyms] == ["6", "4", "8"]


def test_an_internal_config_is_described_only_if_set(described: Described) -> None:
    assert "leader.replication.throttled.rate" not in described.entries(BROKER, "1")
    described.put(BROKER, "1", "leader.replication.throttled.rate", "1000")
    assert described.entries(BROKER, "1")["leader.replication.throttled.rate"].value == "1000"


@pytest.mark.parametrize(("resource", "source"), [("1", ConfigSource.DYNAMIC_BROKER), ("", ConfigSource.DYNAMIC_DEFAULT_BROKER)])
def test_an_unknown_configs_value_is_hidden(described: Described, resource: str, source: ConfigSource) -> None:
    described.put(BROKER, resource, "no.such", "secret")
    entry = described.entries(BROKER, resource)["no.such"]
    assert (entry.value, entry.source, entry.type, entry.sensitive, entry.read_only) == (None, source, 0, True, True)
    assert entry.synonyms == (("no.such", None, source),)


def test_the_authorizers_configs_are_hidden_like_unknown_ones() -> None:
    given = Described(load({"super.users": "User:ann"}, {}, None).settings).entries(BROKER, "1")["super.users"]
    assert (given.value, given.sensitive, given.type) == (None, True, 0)
    assert given.synonyms == (("super.users", None, ConfigSource.STATIC_BROKER),)


def test_a_listener_config_precedes_the_general_one(described: Described) -> None:
    described.put(BROKER, "1", "listener.name.external.max.connections", "5")
    entry = described.entries(BROKER, "1")["listener.name.external.max.connections"]
    assert (entry.value, entry.type, entry.read_only) == ("5", ConfigType.INT, True)
    assert [(name, value) for name, value, _ in entry.synonyms] == [
        ("listener.name.external.max.connections", "5"),
        ("max.connections", "2147483647"),
    ]


def test_a_topic_uses_a_changed_broker_default(described: Described) -> None:
    described.put(BROKER, "", "message.max.bytes", "99")
    entry = described.entries(TOPIC, "t")["max.message.bytes"]
    assert (entry.value, entry.source) == ("99", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_this_brokers_configs_are_described_with_read_only_flags() -> None:
    entries = Described().entries(BROKER, "1")
    lacks = default_behaviour().lacks
    assert set(entries) == {name for name, key in (BROKER_KEYS | STORED_SETTINGS).items() if not key.internal and not lacks(name)}
    assert "internal.segment.bytes" not in entries
    assert entries["num.partitions"].read_only
    assert not entries["message.max.bytes"].read_only
    assert (entries["num.partitions"].value, entries["num.partitions"].source) == ("1", ConfigSource.DEFAULT)
    assert entries["log.retention.ms"].value is None


def test_the_default_broker_resource_has_only_cluster_wide_configs(described: Described) -> None:
    described.put(BROKER, "", "message.max.bytes", "99")
    described.put(BROKER, "1", "log.retention.ms", "1")
    entries = described.entries(BROKER, "")
    assert [(entry.name, entry.value, entry.source) for entry in entries.values()] == [
        ("message.max.bytes", "99", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    ]


def test_loggers_are_described_with_their_levels(described: Described) -> None:
    described.broker.loggers.change([ConfigOp("kafka.authorizer.logger", OpType.SET, "ERROR")])
    entries = described.entries(LOGGER, "1")
    assert (entries["kafka.authorizer.logger"].value, entries["kafka.authorizer.logger"].read_only) == ("ERROR", False)
    assert entries["root"].source is ConfigSource.DYNAMIC_BROKER_LOGGER


def test_a_client_metrics_subscription_is_described_with_defaults(described: Described) -> None:
    described.put(ResourceType.CLIENT_METRICS, "m", "interval.ms", "1000")
    entries = {name: (entry.value, entry.source) for name, entry in described.entries(ResourceType.CLIENT_METRICS, "m").items()}
    assert entries == {
        "interval.ms": ("1000", ConfigSource.CLIENT_METRICS),
        "match": ("", ConfigSource.DEFAULT),
        "metrics": ("", ConfigSource.DEFAULT),
    }


def test_a_group_config_without_broker_config_has_its_default() -> None:
    entry = Described().entries(ResourceType.GROUP, "g")["share.isolation.level"]
    assert entry.synonyms == (("share.isolation.level", "read_uncommitted", ConfigSource.DEFAULT),)


def test_a_group_uses_the_brokers_configs_unless_overridden(described: Described) -> None:
    described.put(ResourceType.GROUP, "g", "consumer.session.timeout.ms", "50000")
    own = described.entries(ResourceType.GROUP, "g")["consumer.session.timeout.ms"]
    assert (own.value, own.source, own.read_only) == ("50000", ConfigSource.GROUP, False)
    assert own.synonyms == (
        ("consumer.session.timeout.ms", "50000", ConfigSource.GROUP),
        ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT),
    )
    other = described.entries(ResourceType.GROUP, "other")["consumer.session.timeout.ms"]
    assert (other.value, other.source) == ("45000", ConfigSource.DEFAULT)


def test_settings_of_4_4_are_described_only_by_a_broker_like_it_and_internal_ones_only_if_set() -> None:
    earlier, later = Described(BrokerSettings(release_behaviour=behaviour_of("4.3"))), Described()
    later.put(ResourceType.GROUP, "g", "consumer.assignor.offload.enable", "false")
    entries = later.entries(ResourceType.GROUP, "g")
    assert entries.keys() - earlier.entries(ResourceType.GROUP, "g").keys() == {
        "consumer.assignor.offload.enable",
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.topic.name",
        "streams.assignor.name",
        "streams.rack.aware.assignment.tags",
    }
    assert entries["consumer.assignor.offload.enable"].synonyms == (
        ("consumer.assignor.offload.enable", "false", ConfigSource.GROUP),
        ("group.consumer.assignor.offload.enable", "true", ConfigSource.DEFAULT),
    )
    assert entries["streams.assignor.name"].synonyms == (("group.streams.assignors", "sticky", ConfigSource.DEFAULT),)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER, "--1", ErrorCode.INVALID_REQUEST),
        (BROKER, "01", ErrorCode.INVALID_REQUEST),
        (BROKER, "9" * 5000, ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (3, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_unknown_resource_is_refused(kind: int, name: str, code: ErrorCode) -> None:
    assert Described().refused(kind, name) is code


def test_a_member_of_a_cluster_is_described_with_kafkas_defaults() -> None:
    given = {"process.roles": "broker", "controller.quorum.bootstrap.servers": "one:9093", "controller.listener.names": "C", "node.id": "1"}
    entries = Described(load(given, {}, None).settings).entries(BROKER, "1")
    factor, roles, node_id = (entries[name] for name in ("offsets.topic.replication.factor", "process.roles", "broker.id"))
    assert (factor.value, factor.source, factor.synonyms[-1][1]) == ("3", ConfigSource.DEFAULT, "3")
    assert (roles.value, roles.source, roles.type, roles.read_only) == ("broker", ConfigSource.STATIC_BROKER, ConfigType.LIST, True)
    assert (node_id.value, node_id.source) == ("1", ConfigSource.STATIC_BROKER)

from __future__ import annotations

import pytest

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import ConfigRecord
from ottla.broker.configs.broker_config import BrokerConfigs, ConfigSource
from ottla.broker.configs.describe_configs import describe_configs
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError, load

KEY = "message.max.bytes"


def put(catalog: Catalog, resource: str, value: str | None) -> None:
    catalog.apply([ConfigRecord(ResourceType.BROKER, resource, KEY, value)])


def test_a_per_broker_value_overrides_the_cluster_default_and_the_static_value() -> None:
    settings = BrokerSettings(message_max_bytes=10, explicit={KEY: "file"})
    catalog = Catalog()
    configs = BrokerConfigs(settings, catalog)
    seen = []
    for resource, value in [("", "20"), ("1", "30"), ("1", None), ("", None)]:
        put(catalog, resource, value)
        assert configs.refresh() == {KEY}
        seen.append(settings.message_max_bytes)
    assert seen == [20, 30, 20, 10]
    assert configs.refresh() == set()


def test_the_config_synonyms_are_in_order_of_precedence() -> None:
    catalog = Catalog()
    configs = BrokerConfigs(BrokerSettings(message_max_bytes=10, explicit={KEY: "file"}), catalog)
    put(catalog, "", "20")
    put(catalog, "1", "30")
    assert configs.layers(KEY) == [
        (KEY, "30", ConfigSource.DYNAMIC_BROKER),
        (KEY, "20", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (KEY, "10", ConfigSource.STATIC_BROKER),
        (KEY, "1048588", ConfigSource.DEFAULT),
    ]


def test_a_stored_value_overrides_the_static_value() -> None:
    catalog = Catalog()
    configs = BrokerConfigs(BrokerSettings(message_max_bytes=10, explicit={KEY: "file"}), catalog)
    assert configs.overridden_static_value(KEY) is None
    put(catalog, "", "10")
    assert configs.overridden_static_value(KEY) is None
    put(catalog, "", "20")
    assert configs.overridden_static_value(KEY) == ("10", "20")
    assert BrokerConfigs(BrokerSettings(), catalog).overridden_static_value(KEY) is None, "nobody asked for another value"


def test_an_unset_config_without_default_has_no_synonyms() -> None:
    assert BrokerConfigs(BrokerSettings(), Catalog()).layers("log.retention.ms") == []


def test_a_config_without_default_has_only_the_given_synonym() -> None:
    given = {"node.id": "0", "log.dirs": "data"}
    configs = BrokerConfigs(load(given, {}, None).settings, Catalog())
    assert {name: configs.layers(name) for name in given} == {
        name: [(name, value, ConfigSource.STATIC_BROKER)] for name, value in given.items()
    }
    assert [configs.layers(name) for name in ("process.roles", "advertised.listeners", "controller.listener.names")] == [[], [], []]


def test_an_invalid_stored_value_is_ignored() -> None:
    settings, catalog = BrokerSettings(), Catalog()
    put(catalog, "", "many")
    assert BrokerConfigs(settings, catalog).refresh() == set()
    assert settings.message_max_bytes == 1_048_588


def test_a_stored_value_of_a_static_config_is_ignored() -> None:
    settings, catalog = BrokerSettings(), Catalog()
    catalog.apply([ConfigRecord(ResourceType.BROKER, "", "num.partitions", "9")])
    BrokerConfigs(settings, catalog).refresh()
    assert settings.num_partitions == 1


def test_deleting_a_listener_limit_restores_the_static_value() -> None:
    inner, outer = (f"listener.name.{name}.max.connections" for name in ("inner", "outer"))
    settings = load({inner: "5"}, {}, None).settings
    catalog = Catalog()
    configs = BrokerConfigs(settings, catalog)
    seen = []
    for name, value in [(inner, "6"), (outer, "7"), (inner, None), (outer, None)]:
        catalog.apply([ConfigRecord(ResourceType.BROKER, "1", name, value)])
        assert configs.refresh() == {name}
        seen.append((settings.max_connections_of("INNER"), settings.max_connections_of("OUTER")))
    most = settings.max_connections
    assert seen == [(6, most), (6, 7), (5, 7), (5, most)]
    assert configs.layers(inner) == [(inner, "5", ConfigSource.STATIC_BROKER)]


def test_a_listener_limit_must_be_a_number() -> None:
    with pytest.raises(SettingsError, match=r"listener\.name\.inner\.max\.connections"):
        load({"listener.name.inner.max.connections": "-1"}, {}, None)


def test_a_listeners_security_configs_are_described_without_passwords() -> None:
    name = "listener.name.secure.plain.sasl.jaas.config"
    loaded = load({"listeners": "SECURE://127.0.0.1:0", "listener.security.protocol.map": "SECURE:SASL_PLAINTEXT", name: "hush!"}, {}, None)
    configs = BrokerConfigs(loaded.settings, Catalog())
    entries = {entry.name: entry for entry in describe_configs(Catalog(), configs, ResourceType.BROKER, str(loaded.settings.node_id), None)}
    assert (entries[name].value, entries[name].sensitive, entries[name].source) == (None, True, ConfigSource.STATIC_BROKER)
    assert "hush!" not in str(entries)


def test_the_settings_as_started_lack_what_was_set_dynamically() -> None:
    catalog, settings = Catalog(), BrokerSettings(message_max_bytes=10)
    configs = BrokerConfigs(settings, catalog)
    put(catalog, "1", "30")
    configs.refresh()
    assert configs.as_started().message_max_bytes == 10
    assert settings.message_max_bytes == 30

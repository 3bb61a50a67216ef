from __future__ import annotations

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import ConfigRecord
from ottla.broker.configs.broker_config import BrokerConfigs, ConfigSource
from ottla.broker.core.settings import BrokerSettings

KEY = "message.max.bytes"


def put(catalog: Catalog, resource: str, value: str | None) -> None:
    catalog.apply([ConfigRecord(ResourceType.BROKER, resource, KEY, value)])


def test_this_brokers_value_beats_all_brokers_beats_the_started_one_and_back_again() -> None:
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


def test_the_layers_come_in_the_order_of_precedence() -> None:
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


def test_a_setting_that_nobody_gave_and_that_has_no_default_has_no_layer() -> None:
    assert BrokerConfigs(BrokerSettings(), Catalog()).layers("log.retention.ms") == []


def test_a_stored_value_that_is_not_allowed_is_passed_over() -> None:
    settings, catalog = BrokerSettings(), Catalog()
    put(catalog, "", "many")
    assert BrokerConfigs(settings, catalog).refresh() == set()
    assert settings.message_max_bytes == 1_048_588


def test_a_stored_value_of_a_setting_that_cannot_change_while_running_is_passed_over() -> None:
    settings, catalog = BrokerSettings(), Catalog()
    catalog.apply([ConfigRecord(ResourceType.BROKER, "", "num.partitions", "9")])
    BrokerConfigs(settings, catalog).refresh()
    assert settings.num_partitions == 1

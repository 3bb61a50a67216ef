from __future__ import annotations

import re
from pathlib import Path

import pytest

import ottla.broker.core.settings as settings_module
from ottla.broker.configs.group_config import GROUP_KEYS
from ottla.broker.core.settings import BROKER_KEYS, TOPIC_KEYS, BrokerSettings, attribute_of, topic_defaults


def test_every_default_of_a_key_is_valid() -> None:
    for key in [*BROKER_KEYS.values(), *TOPIC_KEYS.values()]:
        if key.validator is not None and key.default is not None:
            assert key.validator.allows(key.default), key.name


def test_every_synonym_of_a_topic_key_is_a_broker_setting() -> None:
    for key in TOPIC_KEYS.values():
        for synonym in key.synonyms:
            assert synonym.name in BROKER_KEYS, (key.name, synonym.name)


def test_every_setting_is_used_by_the_code() -> None:
    broker = Path(settings_module.__file__).parents[1]
    read = " ".join(path.read_text() for path in broker.rglob("*.py") if path.name not in {"settings.py", "ignored_settings.py"})
    by_synonym = {synonym.name for key in (*TOPIC_KEYS.values(), *GROUP_KEYS.values()) for synonym in key.synonyms}
    bounds = {name for name in BROKER_KEYS if re.match(r"group\.(consumer|share|streams)\.(min|max)\.", name)}
    others = BROKER_KEYS.keys() - by_synonym - bounds
    assert [name for name in sorted(others) if attribute_of(name) not in read and f'"{name}"' not in read] == []


def test_a_topic_without_settings_has_the_defaults_of_its_keys() -> None:
    defaults = topic_defaults(BrokerSettings())
    assert defaults == {name: key.default for name, key in TOPIC_KEYS.items()}


def test_retention_hours_apply_unless_a_finer_unit_is_set() -> None:
    assert topic_defaults(BrokerSettings(log_retention_hours=1))["retention.ms"] == 3_600_000
    assert topic_defaults(BrokerSettings(log_retention_hours=1, log_retention_minutes=2))["retention.ms"] == 120_000
    assert topic_defaults(BrokerSettings(log_retention_hours=1, log_retention_minutes=2, log_retention_ms=3))["retention.ms"] == 3


def test_unlimited_retention_is_minus_one_in_every_unit() -> None:
    assert topic_defaults(BrokerSettings(log_retention_hours=-1))["retention.ms"] == -1


def test_a_setting_is_read_under_kafkas_name() -> None:
    assert BrokerSettings(log_segment_bytes=2_097_152).value("log.segment.bytes") == 2_097_152


def test_an_unknown_name_raises_key_error() -> None:
    with pytest.raises(KeyError):
        BrokerSettings().value("explicit")


def test_only_these_defaults_differ_from_kafkas() -> None:
    settings = BrokerSettings()
    assert settings.group_initial_rebalance_delay_ms == 0
    assert settings.offsets_topic_replication_factor == settings.transaction_state_log_replication_factor == 1
    assert settings.transaction_state_log_min_isr == 1
    assert settings.listeners == ("PLAINTEXT://127.0.0.1:9092",)
    assert settings.process_roles == settings.controller_listener_names == ()
    assert settings.log_dir == ("ottla-data",)
    kafkas = {
        "num.partitions": 1,
        "fetch.max.bytes": 57_671_680,
        "group.min.session.timeout.ms": 6_000,
        "group.max.session.timeout.ms": 1_800_000,
        "connections.max.idle.ms": 600_000,
        "socket.request.max.bytes": 104_857_600,
        "max.incremental.fetch.session.cache.slots": 1000,
        "producer.id.expiration.ms": 86_400_000,
        "offsets.retention.minutes": 10_080,
        "offsets.topic.num.partitions": 50,
        "offset.metadata.max.bytes": 4096,
        "transaction.max.timeout.ms": 900_000,
        "auto.create.topics.enable": True,
        "delete.topic.enable": True,
    }
    assert {name: settings.value(name) for name in kafkas} == kafkas

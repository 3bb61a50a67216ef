"""Every setting that Kafka defines for a broker is in exactly one of Ottla's tables."""

from __future__ import annotations

from pathlib import Path

from ottla.broker.core.ignored_settings import IGNORED_NAMES, is_defined
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, security_setting

GOLDEN = Path(__file__).parent / "kafka-4.4.0-settings.txt"
OF_KAFKA = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]


def test_every_setting_of_kafka_is_in_one_table() -> None:
    tables = {
        name: [
            name in BROKER_KEYS,
            security_setting(name) is not None,
            name in STORED_SETTINGS and security_setting(name) is None,
            is_defined(name),
        ]
        for name in OF_KAFKA
    }
    assert {name: found for name, found in tables.items() if sum(found) != 1} == {}


def test_an_ignored_setting_is_defined_by_kafka_4_4_or_was_by_another_release() -> None:
    assert {name for name in IGNORED_NAMES if is_defined(name)} <= set(OF_KAFKA)
    assert not {name for name in IGNORED_NAMES if not is_defined(name)} & set(OF_KAFKA)

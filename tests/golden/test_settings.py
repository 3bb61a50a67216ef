"""Every setting that Kafka defines for a broker is in exactly one of Ottla's tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.broker.core.ignored_settings import IGNORED_NAMES, is_defined
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, security_setting

GOLDEN = Path(__file__).parent / "kafka-4.4.0-settings.txt"
OF_KAFKA = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]


def test_every_setting_of_kafka_is_in_one_table() -> None:
    found = {name: list(_tables_with(name)) for name in OF_KAFKA}
    assert {name: tables for name, tables in found.items() if len(tables) != 1} == {}


def _tables_with(name: str) -> Iterator[str]:
    if name in BROKER_KEYS:
        yield "BROKER_KEYS"
    if security_setting(name) is not None:
        yield "security settings"
    elif name in STORED_SETTINGS:
        yield "STORED_SETTINGS"
    if is_defined(name):
        yield "ignored settings"


def test_an_ignored_setting_is_defined_by_kafka_4_4_or_was_by_another_release() -> None:
    assert {name for name in IGNORED_NAMES if is_defined(name)} <= set(OF_KAFKA)
    assert not {name for name in IGNORED_NAMES if not is_defined(name)} & set(OF_KAFKA)

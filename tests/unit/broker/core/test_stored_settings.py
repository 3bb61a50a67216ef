from __future__ import annotations

import pytest

from ottla.broker.core.ignored_settings import IGNORED_NAMES, is_ignored
from ottla.broker.core.settings import BROKER_KEYS
from ottla.broker.core.settings_load import SettingsError, load
from ottla.broker.core.stored_settings import STORED_SETTINGS


def test_every_default_is_valid() -> None:
    assert [
        key.name
        for key in STORED_SETTINGS.values()
        if key.validator is not None and key.default is not None and not key.validator.allows(key.default)
    ] == []


def test_a_setting_is_defined_in_one_table_only() -> None:
    assert not STORED_SETTINGS.keys() & (BROKER_KEYS.keys() | IGNORED_NAMES)
    assert all(is_ignored(name) for name in STORED_SETTINGS)


def test_a_setting_without_effect_is_validated_stored_and_noted_at_the_start() -> None:
    loaded = load({"num.io.threads": "16"}, {}, None)
    assert (loaded.settings.value("num.io.threads"), loaded.settings.value("background.threads")) == (16, 10)
    assert loaded.notes == ["num.io.threads (command line) is a Kafka setting that has no effect here"]
    with pytest.raises(SettingsError, match=r"num\.io\.threads: Value must be at least 1"):
        load({"num.io.threads": "0"}, {}, None)

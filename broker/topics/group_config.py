"""The settings of single consumer groups (Kafka's `GroupConfig`): resources of type GROUP, over the broker's `group.consumer.…`.

Rules that hold inside:
- Only groups of the new protocol have settings; a group need not exist to have them, and they stay when it goes.
- A value is held within the bounds that the broker sets now, whatever they were when it was given.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.config_keys import ConfigKey, ConfigType, InvalidConfig, Synonym, at_least
from broker.core.rejected import Rejected
from broker.core.settings import BrokerSettings
from protocol.error_codes import ErrorCode

SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL_MS = "consumer.assignment.interval.ms"


def _key(name: str, doc: str, least: int = 1) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, None, doc, at_least(least), synonyms=(Synonym(f"group.{name}"),))


GROUP_KEYS: Mapping[str, ConfigKey] = {
    key.name: key
    for key in (
        _key(SESSION_TIMEOUT_MS, "A member of this group silent for so long is out."),
        _key(HEARTBEAT_INTERVAL_MS, "How often members of this group are to be heard of."),
        _key(ASSIGNMENT_INTERVAL_MS, "Least time between two assignments of this group.", least=0),
    )
}


def check_group_configs(overrides: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raises `Rejected(INVALID_CONFIG)` when a group could not run with these overrides (Kafka's `GroupConfig.validate`)."""
    for name, text in overrides.items():
        if name not in GROUP_KEYS:
            raise Rejected(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        value, low, high = _parsed(name, text), *_bounds(name, settings)
        if not low <= value <= high:
            raise Rejected(ErrorCode.INVALID_CONFIG, f"{name} must be between group.{name}'s bounds {low} and {high}, but is {value}")
    values = effective_group_values(overrides, settings)
    if values[SESSION_TIMEOUT_MS] <= values[HEARTBEAT_INTERVAL_MS]:
        raise Rejected(ErrorCode.INVALID_CONFIG, f"{SESSION_TIMEOUT_MS} must be greater than {HEARTBEAT_INTERVAL_MS}")


def effective_group_values(overrides: Mapping[str, str], settings: BrokerSettings) -> dict[str, int]:
    """The value in force for every key; a foreign override's unknown key is left out."""
    return {name: _in_force(name, overrides.get(name), settings) for name in GROUP_KEYS}


def _in_force(name: str, text: str | None, settings: BrokerSettings) -> int:
    value = _number(settings, f"group.{name}") if text is None else _parsed(name, text)
    low, high = _bounds(name, settings)
    return min(max(value, low), high)


def _parsed(name: str, text: str) -> int:
    try:
        value = GROUP_KEYS[name].parse(text)
    except InvalidConfig as error:
        raise Rejected(ErrorCode.INVALID_CONFIG, str(error)) from error
    assert isinstance(value, int)
    return value


def _bounds(name: str, settings: BrokerSettings) -> tuple[int, int]:
    of_group, own = name.split(".", 1)
    return _number(settings, f"group.{of_group}.min.{own}"), _number(settings, f"group.{of_group}.max.{own}")


def _number(settings: BrokerSettings, name: str) -> int:
    value = settings.value(name)
    assert isinstance(value, int)
    return value

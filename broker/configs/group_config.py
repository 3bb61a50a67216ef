"""The settings of single groups (Kafka's `GroupConfig`): resources of type GROUP, over the broker's `group.consumer.…` and their like.

Rules that hold inside:
- A group need not exist to have settings, and they stay when it goes. Those of share and streams groups are kept, without effect.
- A value is held within the bounds that the broker sets now, whatever they were when it was given; it is described as it was given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.broker.core.config_keys import (
    ConfigKey,
    ConfigType,
    InvalidConfig,
    Synonym,
    Validator,
    Value,
    at_least,
    one_of,
    render,
    validator,
)
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, BrokerSettings
from ottla.protocol.error_codes import ErrorCode

SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL_MS = "consumer.assignment.interval.ms"
_OBEYED: Final = (SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS, ASSIGNMENT_INTERVAL_MS)

_STANDBYS: Final = "streams.num.standby.replicas"
_DURATION: Final = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")
_OFFSET_RESET: Final = validator(
    lambda value: isinstance(value, str) and (value in {"earliest", "latest"} or _DURATION.fullmatch(value) is not None),
    "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
)


def _of_broker(name: str, doc: str, low: int) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, None, doc, at_least(low), synonyms=(Synonym(f"group.{name}"),))


def _of_share(name: str, kind: ConfigType, default: Value, doc: str, allowed: Validator | None = None) -> ConfigKey:
    return ConfigKey(name, kind, default, f"{doc} Kept, without effect.", allowed)


GROUP_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        _of_broker(SESSION_TIMEOUT_MS, "A member of this group silent for so long is out.", 1),
        _of_broker(HEARTBEAT_INTERVAL_MS, "How often members of this group are to be heard of.", 1),
        _of_broker(ASSIGNMENT_INTERVAL_MS, "Least time between two assignments of this group.", 0),
        _of_broker("share.session.timeout.ms", "A member of this group silent for so long is out. Kept, without effect.", 1),
        _of_broker("share.heartbeat.interval.ms", "How often members are to be heard of. Kept, without effect.", 1),
        _of_broker("share.record.lock.duration.ms", "How long a member has a record for itself. Kept, without effect.", 1_000),
        _of_broker("share.delivery.count.limit", "How often the group is given a record. Kept, without effect.", 2),
        _of_broker("share.partition.max.record.locks", "Records of a partition in hand. Kept, without effect.", 100),
        _of_share("share.auto.offset.reset", ConfigType.STRING, "latest", "Where the group begins.", _OFFSET_RESET),
        _of_share(
            "share.isolation.level",
            ConfigType.STRING,
            "read_uncommitted",
            "Whether the group is given records of open and aborted transactions.",
            one_of("read_committed", "read_uncommitted"),
        ),
        _of_share("share.renew.acknowledge.enable", ConfigType.BOOLEAN, True, "Whether a member may keep a record for longer."),
        _of_broker("share.assignment.interval.ms", "Time between two assignments of this group. Kept, without effect.", 0),
        _of_broker("streams.session.timeout.ms", "A member of this group silent for so long is out. Kept, without effect.", 1),
        _of_broker("streams.heartbeat.interval.ms", "How often members are to be heard of. Kept, without effect.", 1),
        _of_broker(_STANDBYS, "Standby replicas of each task. Kept, without effect.", 0),
        _of_broker("streams.initial.rebalance.delay.ms", "How long a new group waits for members. Kept, without effect.", 0),
        _of_broker("streams.assignment.interval.ms", "Time between two assignments of this group. Kept, without effect.", 0),
    )
}


def check_group_configs(overrides: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raises `Rejected(INVALID_CONFIG)` when a group could not run with these overrides (Kafka's `GroupConfig.validate`)."""
    unknown = [name for name in overrides if name not in GROUP_KEYS]
    if unknown:
        raise Rejected(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {unknown[0]}")
    values = {name: _parsed(name, text) for name, text in overrides.items()}
    for name, value in values.items():
        low, high = _bounds(name)
        if low is not None and _as_int(value) < _as_int(settings.value(low)):
            raise Rejected(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {low}")
        if high is not None and _as_int(value) > _as_int(settings.value(high)):
            raise Rejected(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {high}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = (
            _as_int(values.get(name, settings.value(f"group.{name}")))
            for name in (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms")
        )
        if session <= heartbeat:
            raise Rejected(ErrorCode.INVALID_CONFIG, f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms")


def effective_group_values(overrides: Mapping[str, str], settings: BrokerSettings) -> dict[str, int]:
    """What a consumer group runs with: the value in force of each key that has an effect."""
    return {name: _in_force(name, overrides.get(name), settings) for name in _OBEYED}


def described_group_value(name: str, overrides: Mapping[str, str], settings: BrokerSettings) -> str:
    """The text of a key's value: the group's own as it was given, else the broker's, else the key's default."""
    if name in overrides:
        return str(render(_parsed(name, overrides[name])))
    key = GROUP_KEYS[name]
    return str(render(settings.value(key.synonyms[0].name) if key.synonyms else key.default))


def _in_force(name: str, text: str | None, settings: BrokerSettings) -> int:
    value = _as_int(settings.value(f"group.{name}") if text is None else _parsed(name, text))
    low, high = (_as_int(settings.value(bound)) for bound in _bounds(name) if bound is not None)
    return min(max(value, low), high)


def _parsed(name: str, text: str) -> Value:
    try:
        return GROUP_KEYS[name].parse(text)
    except InvalidConfig as error:
        raise Rejected(ErrorCode.INVALID_CONFIG, str(error)) from error


def _bounds(name: str) -> tuple[str | None, str | None]:
    """The broker's settings for the lowest and the highest value; None for one that there is not."""
    if name == _STANDBYS:
        return None, "group.streams.max.standby.replicas"
    kind, own = name.split(".", 1)
    low, high = f"group.{kind}.min.{own}", f"group.{kind}.max.{own}"
    known = low in BROKER_KEYS or low in STORED_SETTINGS
    return (low, high) if known else (None, None)


def _as_int(value: Value) -> int:
    assert isinstance(value, int)
    return value

"""The settings of single groups (Kafka's `GroupConfig`): resources of type GROUP, which override the broker's `group.consumer.…` etc.

Invariants:
- A group need not exist to have settings, and its settings remain when the group is deleted.
- The value in force is limited to the broker's present bounds, even if the bounds have changed since the value was set. DescribeConfigs
  returns the value as it was set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.broker.core.config_keys import (
    JAVA_TRIMS,
    ConfigKey,
    ConfigType,
    InvalidConfig,
    Synonym,
    Value,
    at_least,
    one_of,
    render,
    validator,
)
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BROKER_KEYS, BrokerSettings
from ottla.broker.share.settings import LATEST, ShareSettings
from ottla.protocol.error_codes import ErrorCode

SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL_MS = "consumer.assignment.interval.ms"
_COMMON: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")

OFFSET_RESET = "share.auto.offset.reset"
RECORD_LOCK_DURATION_MS = "share.record.lock.duration.ms"
DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"
MAX_RECORD_LOCKS = "share.partition.max.record.locks"
_ISOLATION_LEVEL: Final = "share.isolation.level"
_RENEW_ENABLE: Final = "share.renew.acknowledge.enable"
_OF_SHARE_PARTITIONS: Final = (RECORD_LOCK_DURATION_MS, DELIVERY_COUNT_LIMIT, MAX_RECORD_LOCKS)

DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
_COPY_ENABLE: Final = "errors.deadletterqueue.copy.record.enable"

_ASSIGNOR: Final = "streams.assignor.name"
STANDBYS = "streams.num.standby.replicas"
RACK_TAGS = "streams.rack.aware.assignment.tags"
INITIAL_REBALANCE_DELAY_MS = "streams.initial.rebalance.delay.ms"
_OFFLOAD: Final = "Whether assignments are computed on a background thread, which does not exist here. Stored, without effect."
_DURATION: Final = re.compile(r"by_duration:P(?=.)(?!.*\d{19})(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")
"""A duration whose numbers fit into 64 bits, as in Java; a longer one would be infinite."""
_OFFSET_RESET: Final = validator(
    lambda value: isinstance(value, str) and (value in {"earliest", "latest"} or _DURATION.fullmatch(value) is not None),
    "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
)


def _of_broker(name: str, doc: str, low: int) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, None, doc, at_least(low), synonyms=(Synonym(f"group.{name}"),))


GROUP_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        _of_broker(SESSION_TIMEOUT_MS, "A member that sends no heartbeat for this long is removed from the group.", 1),
        _of_broker(HEARTBEAT_INTERVAL_MS, "The interval of the members' heartbeats.", 1),
        _of_broker(ASSIGNMENT_INTERVAL_MS, "The minimum time between two assignments of the group.", 0),
        _of_broker("share.session.timeout.ms", "A member without heartbeat for this long is removed.", 1),
        _of_broker("share.heartbeat.interval.ms", "The interval of the members' heartbeats.", 1),
        _of_broker(RECORD_LOCK_DURATION_MS, "How long an acquired record is locked for a member.", 1_000),
        _of_broker(DELIVERY_COUNT_LIMIT, "How often a record is delivered at most.", 2),
        _of_broker(MAX_RECORD_LOCKS, "The most records in flight in one partition.", 100),
        ConfigKey(OFFSET_RESET, ConfigType.STRING, LATEST, "Where a new group starts to read.", _OFFSET_RESET),
        ConfigKey(
            _ISOLATION_LEVEL,
            ConfigType.STRING,
            "read_uncommitted",
            "Whether the group reads records of open and aborted transactions.",
            one_of("read_committed", "read_uncommitted"),
        ),
        ConfigKey(_RENEW_ENABLE, ConfigType.BOOLEAN, True, "Whether a member may renew a record lock."),
        _of_broker("share.assignment.interval.ms", "The minimum time between two assignments of the group.", 0),
        _of_broker("streams.session.timeout.ms", "A member without heartbeat for this long is removed.", 1),
        _of_broker("streams.heartbeat.interval.ms", "The interval of the members' heartbeats.", 1),
        _of_broker(STANDBYS, "Standby tasks of each stateful task.", 0),
        _of_broker(INITIAL_REBALANCE_DELAY_MS, "How long a new group waits for members.", 0),
        _of_broker("streams.assignment.interval.ms", "The minimum time between two assignments of the group.", 0),
        *(
            ConfigKey(f"{kind}.assignor.offload.enable", ConfigType.BOOLEAN, True, _OFFLOAD, internal=True, has_effect=False)
            for kind in ("consumer", "share", "streams")
        ),
        ConfigKey(
            _ASSIGNOR,
            ConfigType.STRING,
            None,
            "The assignor of the group.",
            one_of("sticky"),
            synonyms=(Synonym("group.streams.assignors"),),
        ),
        ConfigKey(
            DEAD_LETTER_TOPIC,
            ConfigType.STRING,
            "",
            "The topic to which the records that a share group gives up are written. Empty: none.",
        ),
        ConfigKey(
            RACK_TAGS,
            ConfigType.LIST,
            (),
            "Keys of client tags that the members must have. The assignor `sticky` makes no use of them, as in Kafka 4.4.",
            synonyms=(Synonym(f"group.{RACK_TAGS}"),),
        ),
        ConfigKey(_COPY_ENABLE, ConfigType.BOOLEAN, False, "Whether dead letters have the keys and values of their records."),
    )
}
"""The settings of a group in Kafka 4.4, by name. Internal settings of warm-up tasks are missing, because this broker assigns no warm-up
tasks. DescribeConfigs returns any other internal setting only for a group that has set it.
"""


def group_keys(settings: BrokerSettings) -> Mapping[str, ConfigKey]:
    """Return the settings that a group can have, by name, in the Kafka release that the broker imitates (`settings.release_behaviour`)."""
    known = settings.release_behaviour.table.group_settings
    has_internal = _ASSIGNOR in known  # internal settings came with the same release, 4.4, but are in no release table
    return {name: key for name, key in GROUP_KEYS.items() if name in known or (key.internal and has_internal)}


def check_group_configs(overrides: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raise `Rejected(INVALID_CONFIG)` if a group cannot run with these overrides (Kafka's `GroupConfig.validate`)."""
    known = group_keys(settings)
    unknown = [name for name in overrides if name not in known]
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
    tags = [tag.strip(JAVA_TRIMS) for tag in overrides.get(RACK_TAGS, "").split(",")]
    if len(tags) > 1 and not all(tags):
        raise Rejected(ErrorCode.INVALID_CONFIG, f"Configuration '{RACK_TAGS}' values must not be empty.")
    if len(set(tags)) < len(tags):
        raise Rejected(ErrorCode.INVALID_CONFIG, f"{RACK_TAGS} must not contain duplicate tag keys.")
    if is_reserved_dead_letter_topic(str(values.get(DEAD_LETTER_TOPIC, ""))):
        raise Rejected(ErrorCode.INVALID_CONFIG, f"{DEAD_LETTER_TOPIC}: DLQ topic name must not start with '__'")


def is_reserved_dead_letter_topic(name: str) -> bool:
    """Return whether the topic name is reserved for internal topics (`__…`), so that it cannot be a share group's dead letter queue."""
    return name.startswith("__")


def effective_group_values(kind: str, overrides: Mapping[str, str], settings: BrokerSettings) -> dict[str, int]:
    """Return the values in force of the settings that consumer, share and streams groups have in common, by name. `kind` is `consumer`,
    `share` or `streams`; it is the prefix of the settings' full names, which the names in the result omit.
    """
    return {name: effective_value(f"{kind}.{name}", overrides, settings) for name in _COMMON}


def effective_value(name: str, overrides: Mapping[str, str], settings: BrokerSettings) -> int:
    """Return the value in force of the group setting `name`: the group's own value if it has one, otherwise the broker's. In both cases the
    value is limited to the broker's bounds.
    """
    return _in_force(name, overrides.get(name), settings)


def rack_tags(overrides: Mapping[str, str], settings: BrokerSettings) -> tuple[str, ...]:
    """Return the keys of the client tags that the members of a streams group must have (rack awareness, KIP-1071)."""
    tags = _parsed(RACK_TAGS, overrides[RACK_TAGS]) if RACK_TAGS in overrides else settings.group_streams_rack_aware_assignment_tags
    assert isinstance(tags, tuple)
    return tags


def share_settings(overrides: Mapping[str, str], settings: BrokerSettings, *, dead_letters: bool = False) -> ShareSettings:
    """Return the values in force of the settings that a group's share partitions use. `dead_letters` is whether the feature level of
    share.version allows dead letter queues.
    """
    reset, _, duration = str(_parsed(OFFSET_RESET, overrides.get(OFFSET_RESET, LATEST))).partition(":")
    values = {name: effective_value(name, overrides, settings) for name in _OF_SHARE_PARTITIONS}
    return ShareSettings(
        delivery_count_limit=values[DELIVERY_COUNT_LIMIT],
        record_lock_duration_ms=values[RECORD_LOCK_DURATION_MS],
        partition_max_record_locks=values[MAX_RECORD_LOCKS],
        auto_offset_reset=reset,
        reset_duration_ms=_duration_ms(duration),
        read_committed=overrides.get(_ISOLATION_LEVEL) == "read_committed",
        renew_acknowledge_enable=overrides.get(_RENEW_ENABLE, "true").strip().lower() == "true",
        dead_letter_topic=overrides.get(DEAD_LETTER_TOPIC, "").strip() if dead_letters else "",
        copies_dead_letters=overrides.get(_COPY_ENABLE, "false").strip().lower() == "true",
    )


def _duration_ms(text: str) -> int:
    """Convert an ISO 8601 duration of days, hours, minutes and seconds to milliseconds; an empty text to 0."""
    parts = {unit: float(number) for number, unit in re.findall(r"(\d+(?:\.\d+)?)([DHMS])", text)}
    days, hours, minutes, seconds = (parts.get(unit, 0) for unit in "DHMS")
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000)


def described_group_value(name: str, overrides: Mapping[str, str], settings: BrokerSettings) -> str:
    """Return a group setting's value as DescribeConfigs returns it: the value that was set for the group, otherwise the broker's value,
    otherwise the default. The broker's bounds are not applied."""
    if name in overrides:
        return str(render(_parsed(name, overrides[name])))
    key = GROUP_KEYS[name]
    return str(render(settings.value(key.synonyms[0].name) if key.synonyms else key.default))


def _in_force(name: str, text: str | None, settings: BrokerSettings) -> int:
    value = _as_int(settings.value(f"group.{name}") if text is None else _parsed(name, text))
    low, high = _bounds(name)
    if low is not None:
        value = max(value, _as_int(settings.value(low)))
    return value if high is None else min(value, _as_int(settings.value(high)))


def _parsed(name: str, text: str) -> Value:
    try:
        return GROUP_KEYS[name].parse(text)
    except InvalidConfig as error:
        raise Rejected(ErrorCode.INVALID_CONFIG, str(error)) from error


def _bounds(name: str) -> tuple[str | None, str | None]:
    """Return the names of the two broker settings that bound a group setting: the one with its minimum and the one with its maximum. A name
    is None if there is no such bound."""
    if name == STANDBYS:
        return None, "group.streams.max.standby.replicas"
    kind, own = name.split(".", 1)
    low, high = f"group.{kind}.min.{own}", f"group.{kind}.max.{own}"
    return (low, high) if low in BROKER_KEYS else (None, None)


def _as_int(value: Value) -> int:
    assert isinstance(value, int)
    return value

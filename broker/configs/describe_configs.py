"""Makes the results of DescribeConfigs (Kafka's `ConfigHelper`): every setting with its value, its source and its synonyms.

Invariants:
- A null or empty list of keys means all settings; an unknown key is omitted without an error. The response is sorted by name.
- A sensitive value is null everywhere, also in synonyms. Synonyms are all layers in order of precedence, the value in force first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.broker_changes import CLUSTER_DEFAULT, base_name, broker_key, check_is_this_broker, is_settable_while_running
from ottla.broker.configs.broker_config import BrokerConfigs, ConfigSource, SourcedText
from ottla.broker.configs.client_metrics_config import METRICS_KEYS
from ottla.broker.configs.group_config import described_group_value, group_keys
from ottla.broker.configs.topic_config import effective_values, usable_overrides
from ottla.broker.core.config_keys import ConfigKey, render
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, topic_keys
from ottla.broker.core.topic_keys import OLDER_TOPIC_KEYS, TOPIC_KEYS
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.topic_names import name_problem

UNKNOWN_TYPE = 0
_OF_AUTHORIZER = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
"""Settings of the authorizer, whose values are hidden in responses. In Kafka, only the authorizer's class defines them, so the broker does
not know their types."""

_UNIT_SYNONYMS: dict[str, tuple[str, ...]] = {
    synonym.name: tuple(each.name for each in key.synonyms) for key in TOPIC_KEYS.values() for synonym in key.synonyms
}
"""By the name of a broker setting: all settings for the same quantity in different units, itself included, in order of precedence. For
example, each of log.retention.ms, log.retention.minutes and log.retention.hours has these three.
"""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a resource, as DescribeConfigs returns it. `synonyms` are (name, value, source); a `value` is None if it is sensitive
    or not set."""

    name: str
    value: str | None
    source: ConfigSource
    type: int
    read_only: bool
    sensitive: bool
    synonyms: tuple[tuple[str, str | None, ConfigSource], ...]
    documentation: str | None


def describe_configs(
    catalog: Catalog, broker: BrokerConfigs, resource_type: int, resource_name: str, keys: Sequence[str] | None
) -> list[ConfigEntry]:
    """Return the settings of one resource, sorted by name: those that `keys` names, or all if `keys` is None or empty. Raises Rejected for
    an unknown topic, an invalid name, another broker's id, or an unknown resource type.
    """
    entries = _all_entries(catalog, broker, resource_type, resource_name)
    return sorted((entry for entry in entries if not keys or entry.name in keys), key=lambda entry: entry.name)


def _all_entries(catalog: Catalog, broker: BrokerConfigs, resource_type: int, name: str) -> list[ConfigEntry]:
    match resource_type:
        case ResourceType.TOPIC:
            if (problem := name_problem(name)) is not None:
                raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
            if catalog.topic(name) is None:
                raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return topic_entries(catalog.configs(ResourceType.TOPIC, name), broker)
        case ResourceType.BROKER:
            if name == CLUSTER_DEFAULT:
                return _cluster_default_entries(broker)
            check_is_this_broker(name, broker.settings)
            return [_broker_entry(broker, name) for name in broker.names()]
        case ResourceType.BROKER_LOGGER:
            if not name:
                raise Rejected(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            check_is_this_broker(name, broker.settings)
            return _logger_entries(broker)
        case ResourceType.CLIENT_METRICS if broker.settings.release_behaviour.has_client_metrics:
            if not name:
                raise Rejected(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            overrides = catalog.configs(resource_type, name)
            return (
                _metrics_entries(overrides) if broker.settings.release_behaviour.describes_client_metrics else _untyped_entries(overrides)
            )
        case ResourceType.GROUP if broker.settings.release_behaviour.has_group_settings:
            if not name:
                raise Rejected(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return _group_entries(catalog.configs(resource_type, name), broker)
        case _:
            raise Rejected(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")


def topic_entries(overrides: Mapping[str, str], broker: BrokerConfigs) -> list[ConfigEntry]:
    """Return the DescribeConfigs entry of every setting of a topic with these overrides. An internal setting has an entry only if it was
    set.
    """
    values, usable = effective_values(overrides, broker.settings), usable_overrides(overrides, broker.settings)
    entries = []
    for key in topic_keys(broker.settings).values():
        text = render(values[key.name])
        if text is None:
            continue
        own: list[SourcedText] = [(key.name, text, ConfigSource.DYNAMIC_TOPIC)] if key.name in usable else []
        names = tuple(synonym.name for synonym in key.synonyms)
        behind = _from_first_layer_of(names[0], _chain(broker, names)) if names else []
        if key.name in OLDER_TOPIC_KEYS:  # Ottla has no broker setting for the default of such a topic setting
            behind = [(f"log.{key.name}", str(render(key.default)), ConfigSource.DEFAULT)]
        entries.append(_entry(key, text, own + behind, read_only=False))
    return entries


def _group_entries(overrides: Mapping[str, str], broker: BrokerConfigs) -> list[ConfigEntry]:
    entries = []
    for key in group_keys(broker.settings).values():
        own: list[SourcedText] = []
        if key.internal and key.name not in overrides:
            continue
        if key.name in overrides:
            own = [(key.name, described_group_value(key.name, overrides, broker.settings), ConfigSource.GROUP)]
        behind = _chain(broker, tuple(synonym.name for synonym in key.synonyms))
        if not key.synonyms:
            name = f"group.{key.name}" if key.internal else key.name
            behind = [(name, described_group_value(key.name, {}, broker.settings), ConfigSource.DEFAULT)]
        chain = own + behind
        entries.append(_entry(key, chain[0][1], chain, read_only=False))
    return entries


def _metrics_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    entries = []
    for key in METRICS_KEYS.values():
        text = render(key.parse(overrides[key.name]) if key.name in overrides else key.default)
        own = [(key.name, str(text), ConfigSource.CLIENT_METRICS)] if key.name in overrides else []
        entries.append(_entry(key, text, own, read_only=False))
    return entries


def _untyped_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return the settings of a client metrics subscription that were set, without defaults, and with unknown types. A broker that imitates
    a Kafka release before 4.1 describes a subscription in this way.
    """
    source = ConfigSource.CLIENT_METRICS
    return [
        ConfigEntry(name, text, source, UNKNOWN_TYPE, read_only=False, sensitive=False, synonyms=(), documentation="")
        for name, text in overrides.items()
    ]


def _broker_entry(broker: BrokerConfigs, name: str) -> ConfigEntry:
    key, base = broker_key(name, broker.settings.release_behaviour), base_name(name)
    chain = _chain(broker, _UNIT_SYNONYMS.get(name, (name,) if base is None else (name, base)))
    if name in _OF_AUTHORIZER:
        return _unknown_entry(name, [layer for layer in chain if layer[2] != ConfigSource.DEFAULT])
    if key is None:
        return _unknown_entry(name, _from_first_layer_of(name, chain))
    if name in BROKER_KEYS:
        value = broker.settings.value(name)
        text = render(value) if key.has_default or value != () else None
    else:
        text = chain[0][1] if chain else None
    return _entry(key, text, _from_first_layer_of(name, chain), read_only=_is_read_only(name, key))


def _is_read_only(name: str, key: ConfigKey) -> bool:
    """Return whether DescribeConfigs marks a broker setting as read-only. As in Kafka, it marks every setting with a listener prefix
    (`listener.name.…`)."""
    return not (key.dynamic if name in BROKER_KEYS | STORED_SETTINGS else base_name(name) is None and is_settable_while_running(name))


def _cluster_default_entries(broker: BrokerConfigs) -> list[ConfigEntry]:
    """Return the broker settings that were set dynamically for all brokers, and no others."""
    entries = []
    for name, text in broker.cluster_wide().items():
        key, chain = broker_key(name, broker.settings.release_behaviour), [(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER)]
        entries.append(_unknown_entry(name, chain) if key is None else _entry(key, text, chain, read_only=not key.dynamic))
    return entries


def _unknown_entry(name: str, chain: Sequence[SourcedText]) -> ConfigEntry:
    """Return the entry of a setting whose type is unknown. Its value is hidden, because it may be a password. `chain` has the layers
    (dynamic, static, default) that set the value; the one in force is first.
    """
    synonyms = tuple((name, None, origin) for name, _, origin in chain)
    return ConfigEntry(name, None, chain[0][2], UNKNOWN_TYPE, read_only=True, sensitive=True, synonyms=synonyms, documentation=None)


def _from_first_layer_of(name: str, chain: Sequence[SourcedText]) -> list[SourcedText]:
    """Return the end of `chain`, from the first layer that sets `name` itself. `chain` has the layers that set a setting or a synonym in
    another unit (such as log.retention.hours). The layers that are dropped set only synonyms, which have no effect on `name`.
    """
    return list(dropwhile(lambda layer: layer[0] != name, chain))


def _chain(broker: BrokerConfigs, names: Sequence[str]) -> list[SourcedText]:
    layers = [layer for name in names for layer in broker.layers(name)]
    return sorted(layers, key=lambda layer: layer[2])


def _entry(key: ConfigKey, text: str | None, chain: Sequence[SourcedText], *, read_only: bool) -> ConfigEntry:
    source = chain[0][2] if chain else ConfigSource.DEFAULT
    synonyms = tuple((name, None if key.sensitive else value, origin) for name, value, origin in chain)
    value = None if key.sensitive else text
    return ConfigEntry(key.name, value, source, key.type, read_only, key.sensitive, synonyms, key.doc)


def _logger_entries(broker: BrokerConfigs) -> list[ConfigEntry]:
    source = ConfigSource.DYNAMIC_BROKER_LOGGER
    return [
        ConfigEntry(name, level, source, UNKNOWN_TYPE, read_only=False, sensitive=False, synonyms=(), documentation="")
        for name, level in broker.loggers.levels().items()
    ]

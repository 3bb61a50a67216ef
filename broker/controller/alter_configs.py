"""Decides AlterConfigs and IncrementalAlterConfigs (Kafka's `ConfigAdminManager` and `ConfigurationControlManager`).

Invariants:
- An invalid setting rejects all changes of its resource, but not those of other resources. A resource or a key that is named twice is
  rejected.
- Logger levels are not in the metadata; `broker_loggers` has them. AlterConfigs does not support them, as in Kafka.
- AlterConfigs replaces: settings that it does not name are deleted. IncrementalAlterConfigs changes only the settings that it names.
- `broker_changes` decides which broker settings can change, and to which values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.broker_changes import (
    CLUSTER_DEFAULT,
    CheckStores,
    broker_key,
    check_broker_changes,
    check_cordoned,
    check_is_this_broker,
    check_threads,
    check_values,
    is_of_kafka,
)
from ottla.broker.configs.client_metrics_config import check_metrics_configs
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.configs.group_config import check_group_configs, group_keys
from ottla.broker.configs.topic_config import check_topic_configs, effective_values, usable_overrides
from ottla.broker.core.config_keys import ConfigKey, ConfigType, render
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings, topic_keys
from ottla.broker.releases.release_behaviour import ReleaseBehaviour
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.topic_names import name_problem

_TYPES: Final = frozenset({ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS})


@dataclass(frozen=True, slots=True)
class AlterResource:
    """The requested changes of one resource's settings (a topic, broker, group, …). With `replace`, settings that the request does not name
    are deleted (AlterConfigs).
    """

    resource_type: int
    name: str
    ops: Sequence[ConfigOp]
    replace: bool = False


def no_stores(_wanted: Mapping[str, str]) -> None:
    """Accept any keystore settings without a check. This is the `check_stores` of a caller that must not read files."""


def form_errors(resources: Sequence[AlterResource]) -> dict[int, Rejected]:
    """Return an error for each malformed resource, by its index in `resources`. A broker returns these without authorization
    (`ConfigAdminManager.preprocess`).
    """
    twice = named_twice(resources)
    errors = ((index, _form_error(resource, twice)) for index, resource in enumerate(resources))
    return {index: error for index, error in errors if error is not None}


def errors_of_brokers(
    catalog: Catalog, resources: Sequence[AlterResource], settings: BrokerSettings, check_stores: CheckStores = no_stores
) -> dict[int, Rejected]:
    """Return an error for each BROKER resource whose change this broker rejects, by its index in `resources`. As in Kafka, the broker
    checks these resources before it forwards the request to the controller, which authorizes them. `check_stores` gets a broker's new
    settings, and raises Rejected if their keystores cannot be used."""
    errors: dict[int, Rejected] = {}
    twice = named_twice(resources)  # `form_errors` has their errors; opening the same stores many times would take long
    for index, resource in enumerate(resources):
        if resource.resource_type == ResourceType.BROKER and (resource.resource_type, resource.name) not in twice:
            try:
                check_operations(resource)
                wanted = _broker_wants(catalog, resource, settings)
                if resource.name != CLUSTER_DEFAULT:
                    check_stores(wanted)
            except Rejected as error:
                errors[index] = reported(error, resource, settings)
    return errors


def reported(error: Rejected, resource: AlterResource, settings: BrokerSettings) -> Rejected:
    """Return the error of a configuration change as the Kafka release that this broker imitates reports it. In a release with ZooKeeper an
    invalid value is INVALID_REQUEST, not INVALID_CONFIG. An unknown topic setting is INVALID_CONFIG in every release.
    """
    if error.code is not ErrorCode.INVALID_CONFIG or not settings.release_behaviour.has_zookeeper:
        return error.without_traceback()
    is_of_topic = resource.resource_type == ResourceType.TOPIC
    has_unknown = is_of_topic and not topic_keys(settings).keys() >= {op.name for op in resource.ops}
    return error.without_traceback() if has_unknown else Rejected(ErrorCode.INVALID_REQUEST, error.message)


def wanted_of(catalog: Catalog, resource: AlterResource, settings: BrokerSettings) -> dict[str, str]:
    """Return all overrides that the topic, group or client metrics subscription has after the change. Raises `Rejected` for an invalid
    change.
    """
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _topic_wants(catalog, resource, settings)
        case ResourceType.GROUP if settings.release_behaviour.has_group_settings:
            return _group_wants(catalog, resource, settings)
        case ResourceType.CLIENT_METRICS if settings.release_behaviour.has_client_metrics:
            return _metrics_want(catalog, resource)
    raise Rejected(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")


def named_twice(resources: Sequence[AlterResource]) -> set[tuple[int, str]]:
    """Return the resources, by type and name, that a request names more than once."""
    seen = Counter((resource.resource_type, resource.name) for resource in resources)
    return {named for named, times in seen.items() if times > 1}


def is_of_loggers(resource: AlterResource) -> bool:
    """Return whether the change sets logger levels by IncrementalAlterConfigs; AlterConfigs cannot change them."""
    return resource.resource_type == ResourceType.BROKER_LOGGER and not resource.replace


def _form_error(resource: AlterResource, twice: set[tuple[int, str]]) -> Rejected | None:
    if (resource.resource_type, resource.name) in twice:
        return Rejected(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if len({op.name for op in resource.ops}) != len(resource.ops):
        return Rejected(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [op.name for op in resource.ops if op.value is None and op.op != OpType.DELETE]
    if nulls:
        return Rejected(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    if resource.resource_type not in _TYPES and not is_of_loggers(resource):
        return Rejected(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    return None


def check_operations(resource: AlterResource) -> None:
    """Raise `Rejected(INVALID_REQUEST)` if a change of the resource has an unknown operation (not SET, DELETE, APPEND or SUBTRACT)."""
    if any(op.op not in OpType.__members__.values() for op in resource.ops):
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Unknown operations type in {[op.op for op in resource.ops]}")


def _topic_wants(catalog: Catalog, resource: AlterResource, settings: BrokerSettings) -> dict[str, str]:
    current = catalog.configs(ResourceType.TOPIC, resource.name)
    defaults = {name: render(value) for name, value in effective_values({}, settings).items()}
    wanted = wanted_overrides(resource, current, topic_keys(settings), defaults)
    if not resource.name:
        raise Rejected(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if (problem := name_problem(resource.name)) is not None:
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    named = {op.name for op in resource.ops}
    checked = named | usable_overrides(wanted, settings).keys()
    exists = catalog.topic(resource.name) is not None
    if exists or not settings.release_behaviour.has_zookeeper:
        check_topic_configs({name: text for name, text in wanted.items() if name in checked}, settings)
    if not exists:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    return wanted


def _broker_wants(catalog: Catalog, resource: AlterResource, settings: BrokerSettings) -> dict[str, str]:
    if resource.name != CLUSTER_DEFAULT:
        check_is_this_broker(resource.name, settings)
    current = catalog.configs(ResourceType.BROKER, resource.name)
    wanted = _wanted_of_broker(resource, current, settings.release_behaviour)
    check_broker_changes(resource.name, sorted({op.name for op in resource.ops}), wanted, settings.release_behaviour)
    check_cordoned(wanted, settings)
    of_all = catalog.configs(ResourceType.BROKER, CLUSTER_DEFAULT)
    of_this = catalog.configs(ResourceType.BROKER, str(settings.node_id))
    then = {**wanted, **of_this} if resource.name == CLUSTER_DEFAULT else {**of_all, **wanted}
    check_threads({**of_all, **of_this}, then, settings)
    check_values(then, {op.name for op in resource.ops}, settings)
    return wanted


def _wanted_of_broker(resource: AlterResource, current: Mapping[str, str], like: ReleaseBehaviour) -> dict[str, str]:
    keys = {op.name: key for op in resource.ops if (key := broker_key(op.name, like)) is not None}
    for op in resource.ops:
        if op.op in {OpType.APPEND, OpType.SUBTRACT} and not is_of_kafka(op.name, like):
            raise Rejected(ErrorCode.INVALID_CONFIG, f"Unknown config name: {op.name}")
    return wanted_overrides(resource, current, keys, {name: render(key.default) for name, key in keys.items()})


def _group_wants(catalog: Catalog, resource: AlterResource, settings: BrokerSettings) -> dict[str, str]:
    current = catalog.configs(ResourceType.GROUP, resource.name)
    keys = group_keys(settings)
    wanted = wanted_overrides(resource, current, {}, {})  # lists of groups only change as a whole (KafkaConfigSchema.isSplittable)
    if not resource.name:
        raise Rejected(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    named = {op.name for op in resource.ops}
    check_group_configs({name: text for name, text in wanted.items() if name in keys or name in named}, settings)
    return wanted


def _metrics_want(catalog: Catalog, resource: AlterResource) -> dict[str, str]:
    current = catalog.configs(ResourceType.CLIENT_METRICS, resource.name)
    wanted = wanted_overrides(resource, current, {}, {})
    check_metrics_configs(resource.name, wanted)
    return wanted


def wanted_overrides(
    resource: AlterResource, current: Mapping[str, str], keys: Mapping[str, ConfigKey], defaults: Mapping[str, str | None]
) -> dict[str, str]:
    """Return all of the resource's overrides after the change. `current` has those before the change. `defaults` has the values that APPEND
    and SUBTRACT start from if there is no override. Raises Rejected if APPEND or SUBTRACT names a setting that is not a list.
    """
    wanted = {} if resource.replace else dict(current)
    for op in resource.ops:
        if op.op == OpType.DELETE or op.value is None:
            wanted.pop(op.name, None)
        elif op.op == OpType.SET:
            wanted[op.name] = op.value
        else:
            before = current.get(op.name, defaults.get(op.name)) or ""
            wanted[op.name] = _edited_list(op, op.value, before, keys)
    return wanted


def _edited_list(op: ConfigOp, value: str, before: str, keys: Mapping[str, ConfigKey]) -> str:
    if op.name not in keys or keys[op.name].type is not ConfigType.LIST:
        raise Rejected(ErrorCode.INVALID_CONFIG, f"Can't {OpType(op.op).name} to key {op.name} because its type is not LIST.")
    items, edits = [item for item in before.split(",") if item], _java_split(value)
    if op.op == OpType.APPEND:
        known = set(items)
        return ",".join([*items, *dict.fromkeys(edit for edit in edits if edit not in known)])
    left = Counter(edits)  # each edit removes one occurrence, the first
    kept = []
    for item in items:
        if left[item] > 0:
            left[item] -= 1
        else:
            kept.append(item)
    return ",".join(kept)


def _java_split(text: str) -> list[str]:
    """Split like Java's `text.split(",")`: trailing empty items are dropped, but an empty text gives one empty item."""
    items = text.split(",")
    while len(items) > 1 and not items[-1]:
        items.pop()
    return items if items != [""] or not text else []

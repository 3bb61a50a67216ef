"""Decides AlterConfigs and IncrementalAlterConfigs in a cluster, by the rules of `alter_configs` and those for several brokers.

Invariants:
- A broker checks its own settings before it forwards the request. The controller writes a record for each named broker setting, even if
  its value is unchanged, so that the broker reads the files again that the setting names (KAFKA-14136).
- With eligible leader replicas `min.insync.replicas` is set cluster-wide only, and a change clears all eligible replicas (KIP-966).
- In the records of an AlterConfigs request, the settings that it names come before those that it deletes by not naming them.
- A null value deletes the setting. Only clients that connect to the controller can send null, because a broker rejects it before
  forwarding.

Source: Kafka's ConfigurationControlManager, ControllerConfigurationValidator.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.cluster.record_versions import CORDONED_DIRECTORIES
from ottla.broker.configs.broker_changes import CLUSTER_DEFAULT, broker_key, parse_setting
from ottla.broker.configs.config_op import OpType
from ottla.broker.controller.alter_configs import (
    AlterResource,
    check_operations,
    is_of_loggers,
    named_twice,
    reported,
    wanted_of,
    wanted_overrides,
)
from ottla.broker.controller.clear_elr import cleared_elr
from ottla.broker.controller.create_topics import config_record
from ottla.broker.controller.state import MIN_ISR, ControllerState
from ottla.broker.core.config_keys import render
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.stored_settings import CORDONED
from ottla.broker.releases.release_behaviour import ReleaseBehaviour
from ottla.protocol.error_codes import ErrorCode

_TYPES: Final = frozenset({ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS})
_VALUE_CHARS_MAX: Final = 32_767
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")


def alter_cluster_configs(
    state: ControllerState, resources: Sequence[AlterResource], *, forwarded: bool
) -> Effects[MetadataRecord, list[Rejected | None]]:
    """Decide an AlterConfigs or IncrementalAlterConfigs request: return the metadata records to write, and an error or None per resource,
    in the request's order. `forwarded` is true if a broker has checked the request already."""
    malformed = form_errors(resources)
    records: list[MetadataRecord] = []
    results: list[Rejected | None] = []
    for index, resource in enumerate(resources):
        try:
            if index in malformed:
                raise malformed[index]
            _check_operations(resource)
            records += _resource_records(state, resource, forwarded=forwarded)
            results.append(None)
        except Rejected as error:
            results.append(reported(error, resource, state.settings))
    return Effects([*records, *(cleared_elr(records) if state.has_elr else ())], results)


def _resource_records(state: ControllerState, resource: AlterResource, *, forwarded: bool) -> list[MetadataRecord]:
    is_broker = resource.resource_type == ResourceType.BROKER
    current = state.catalog.configs(resource.resource_type, resource.name)
    wanted = _broker_wants(state, resource) if is_broker else wanted_of(state.catalog, resource, state.settings)
    changes = {op.name: wanted.get(op.name) for op in resource.ops if is_broker or wanted.get(op.name) != current.get(op.name)}
    changes |= {name: None for name in current if name not in wanted and name not in changes}
    for name, value in changes.items():
        if is_broker:
            _check_broker_setting(state, resource.name, name, value, forwarded=forwarded)
        if value is not None and len(value) > _VALUE_CHARS_MAX:
            what = f"The configuration value cannot be added because it exceeds the maximum value size of {_VALUE_CHARS_MAX} bytes."
            raise _invalid(what)
    if is_broker:
        _check_node(state, resource.name)
    return [config_record(resource.resource_type, resource.name, name, value) for name, value in changes.items()]


def form_errors(resources: Sequence[AlterResource]) -> dict[int, Rejected]:
    """Return an error for each resource that Kafka's controller rejects before authorization (`ControllerApis`), by its index in
    `resources`.
    """
    twice = named_twice(resources)
    errors = ((index, _form_error(resource, twice)) for index, resource in enumerate(resources))
    return {index: error for index, error in errors if error is not None}


def _form_error(resource: AlterResource, twice: set[tuple[int, str]]) -> Rejected | None:
    is_logger = resource.resource_type == ResourceType.BROKER_LOGGER
    if resource.resource_type not in _TYPES and not is_logger:
        return Rejected(ErrorCode.UNSUPPORTED_VERSION, f"Unknown resource type {resource.resource_type}.")
    if (resource.resource_type, resource.name) in twice and not is_of_loggers(resource):
        return Rejected(ErrorCode.INVALID_REQUEST, "Duplicate resource.")
    if is_logger and resource.replace:
        return Rejected(ErrorCode.INVALID_REQUEST, "Unexpected resource type BROKER_LOGGER.")
    return None


def _check_operations(resource: AlterResource) -> None:
    if is_of_loggers(resource):  # logger levels are in no record; each node sets its own
        raise Rejected(ErrorCode.INVALID_REQUEST, "Unexpected resource type BROKER_LOGGER.")
    check_operations(resource)
    nothing = [op.name for op in resource.ops if op.value is None and op.op in {OpType.APPEND, OpType.SUBTRACT}]
    if nothing:  # Kafka's controller fails on such an operation
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nothing)}")


def _broker_wants(state: ControllerState, resource: AlterResource) -> dict[str, str]:
    keys = {op.name: key for op in resource.ops if (key := broker_key(op.name, state.settings.release_behaviour)) is not None}
    defaults = {name: render(key.default) for name, key in keys.items()}
    return wanted_overrides(resource, state.catalog.configs(ResourceType.BROKER, resource.name), keys, defaults)


def _check_broker_setting(state: ControllerState, broker: str, name: str, value: str | None, *, forwarded: bool) -> None:
    if name == MIN_ISR and state.has_elr and broker != CLUSTER_DEFAULT:
        raise _invalid(f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
    if name == MIN_ISR and state.has_elr and value is None:
        raise _invalid(f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")
    if name == MIN_ISR and value is not None:
        _check_min_isr(value, state.settings.release_behaviour)
    if name != CORDONED or state.settings.release_behaviour.lacks(name):
        return
    if state.metadata_level < CORDONED_DIRECTORIES:
        raise _invalid(f"The {CORDONED} configuration value cannot be set because it requires metadata.version >= 4.3-IV0")
    known = _items(state.catalog.configs(ResourceType.BROKER, broker).get(CORDONED))
    if not forwarded and not _items(value) <= known:
        what = "via controllers,  the new value must be a subset of the current configuration value."
        raise _invalid(f"When updating {CORDONED} {what}")


def _check_min_isr(value: str, like: ReleaseBehaviour) -> None:
    """Raise Rejected(INVALID_CONFIG) for an invalid value of min.insync.replicas, because the controller uses this setting itself. Kafka
    accepts any text here and fails at its next decision about a partition.
    """
    try:
        parse_setting(MIN_ISR, value, like)
    except Rejected as error:
        raise _invalid(error.message) from error


def _items(value: str | None) -> set[str]:
    return {item.strip() for item in value.split(",")} if value is not None and value.strip() else set()


def _check_node(state: ControllerState, name: str) -> None:
    """Raise Rejected unless `name`, the name of a BROKER resource, is empty (all brokers) or the id of a node of the cluster."""
    if name == CLUSTER_DEFAULT:
        return
    if _INTEGER.fullmatch(name) is None:
        raise Rejected(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    if (node_id := int(name)) < 0:
        raise Rejected(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
    if node_id not in {*state.image.brokers, *state.image.controllers, *state.voters}:
        raise Rejected(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")


def _invalid(message: str) -> Rejected:
    return Rejected(ErrorCode.INVALID_CONFIG, message)

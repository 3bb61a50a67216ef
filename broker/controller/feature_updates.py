"""Decides UpdateFeatures requests, which raise the finalized levels of features, or lower them if no metadata is lost.

Invariants:
- A request is applied as a whole or not at all.
- A level must be supported by this controller, every registered broker (fenced ones, too) and every controller of the quorum.
- `metadata.version` can be lowered only past levels that introduced no new records, so that no metadata is lost. An "unsafe" downgrade
  allows no more than that, as in Kafka 4.3.
- This controller's quorum always has a single voter, so `kraft.version` never changes.

Source: Kafka's FeatureControlManager, ConfigurationControlManager (updateFeatures, maybeGenerateElrSafetyRecords), MetadataVersion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.broker.cluster.features import METADATA_VERSION, REGISTERED, supported
from ottla.broker.cluster.image import ELR_VERSION, KRAFT_VERSION, ResourceType
from ottla.broker.cluster.metadata_records import ConfigRecord, FeatureLevelRecord, FeatureRange, MetadataRecord, NoOpRecord
from ottla.broker.cluster.record_versions import CONTROLLER_REGISTRATION, ELIGIBLE_LEADER_REPLICAS
from ottla.broker.configs.broker_changes import CLUSTER_DEFAULT
from ottla.broker.controller.state import MIN_ISR, ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

_LEVELS_THAT_BROUGHT_RECORDS: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})
_DISABLED: Final = (0, 0)
_NEEDS: Final[Mapping[str, int]] = {ELR_VERSION: ELIGIBLE_LEADER_REPLICAS}
"""By feature, the lowest metadata.version that the feature requires. A feature that is not listed requires none."""


class UpgradeType(IntEnum):
    """The `upgrade_type` of a feature change in an UpdateFeatures request: whether the request allows only an upgrade, or also a safe or an
    unsafe downgrade (KIP-778)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """One feature's new level; 0 removes the feature. `upgrade_type` is the number in the request, which may be invalid."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def update_features(state: ControllerState, updates: Sequence[FeatureUpdate]) -> Effects[MetadataRecord, None]:
    """Return the records of an UpdateFeatures request. Raises Rejected (INVALID_UPDATE_VERSION) if one of the updates is not possible."""
    by_name = {update.name: update for update in updates}
    proposed = {**state.image.features, **{update.name: update.level for update in by_name.values()}}
    records: list[MetadataRecord] = []
    for update in by_name.values():
        _check_type(update)
        if (problem := _unsupported(state, update)) is not None:
            raise _invalid(update, problem)
        _check_direction(state, update)
        records += _records_of(state, update, proposed)
    if ELR_VERSION in by_name and by_name[ELR_VERSION].level > 0:
        records = [*_elr_safety(state), *records]
    return Effects(records, None)


def _check_type(update: FeatureUpdate) -> None:
    if update.upgrade_type not in UpgradeType.__members__.values():
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")


def _unsupported(state: ControllerState, update: FeatureUpdate) -> str | None:
    """Return an error text that names a node which does not support the new level, or a voter whose supported levels are unknown because
    it has not registered. Return None if all nodes support the level."""
    own_id, name, level = state.settings.node_id, update.name, update.level
    known: dict[str, tuple[int, int]] = {f"Local controller {own_id}": _own_range(state, name)}
    for broker_id, broker in sorted(state.image.brokers.items()):
        known[f"Broker {broker_id}"] = _range_of(broker.features, name)
    controllers = state.image.controllers if state.metadata_level >= CONTROLLER_REGISTRATION else {}
    for node_id, controller in sorted(controllers.items()):
        if node_id != own_id:
            known[f"Controller {node_id}"] = _range_of(controller.features, name)
    for who, (low, high) in known.items():
        if not low <= level <= high:
            return f"{who} does not support this feature." if high == 0 else f"{who} only supports versions {low}-{high}"
    if state.metadata_level >= CONTROLLER_REGISTRATION:
        for node_id in state.voters:
            if node_id != own_id and node_id not in controllers:
                return f"controller {node_id} has not registered, and may not support this feature"
    return None


def _own_range(state: ControllerState, name: str) -> tuple[int, int]:
    if name == METADATA_VERSION and name in (levels := supported(state.settings.release_behaviour)):
        return levels[name]
    return REGISTERED.get(name, _DISABLED) if name in state.settings.release_behaviour.table.features else _DISABLED


def _range_of(features: Mapping[str, FeatureRange], name: str) -> tuple[int, int]:
    feature = features.get(name)
    return _DISABLED if feature is None else (feature.min_supported_version, feature.max_supported_version)


def _current(state: ControllerState, name: str) -> int:
    return state.kraft_version if name == KRAFT_VERSION else state.image.features.get(name, 0)


def _check_direction(state: ControllerState, update: FeatureUpdate) -> None:
    current = _current(state, update.name)
    is_upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if update.level < current and is_upgrade:
        how = "without setting the upgrade type to either safe or unsafe downgrade."
        raise _invalid(update, f"Can't downgrade the version of this feature {how}")
    if update.level > current and not is_upgrade:
        raise _invalid(update, "Can't downgrade to a newer version.")


def _records_of(state: ControllerState, update: FeatureUpdate, proposed: Mapping[str, int]) -> list[MetadataRecord]:
    match update.name:
        case "metadata.version":
            _check_metadata_downgrade(state.metadata_level, update)
        case "kraft.version":
            return _kraft_version(state, update)
        case _:
            _check_needs(update, proposed)
    return [FeatureLevelRecord(update.name, update.level)]


def _check_metadata_downgrade(current: int, update: FeatureUpdate) -> None:
    if not any(update.level < level <= current for level in _LEVELS_THAT_BROUGHT_RECORDS):
        return
    if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        problem = "Unsafe metadata downgrade is not supported in this version."
    else:
        problem = "Refusing to perform the requested downgrade because it might delete metadata information."
    raise Rejected(ErrorCode.INVALID_UPDATE_VERSION, f"Unsupported metadata.version downgrade from {current} to {update.level}. {problem}")


def _kraft_version(state: ControllerState, update: FeatureUpdate) -> list[MetadataRecord]:
    """Return the records of an update of kraft.version, whose level cannot change here: at most a no-op record, which makes the response
    wait for a commit, as in Kafka. Raises Rejected (INVALID_UPDATE_VERSION) for any other level.
    """
    if update.level < state.kraft_version:
        raise _invalid(update, "Can't downgrade the version of this feature.")
    if update.level > state.kraft_version:
        raise _invalid(update, "The quorum of this controller always has a single voter.")
    return [NoOpRecord()] if update.upgrade_type == UpgradeType.UPGRADE else []


def _check_needs(update: FeatureUpdate, proposed: Mapping[str, int]) -> None:
    if update.name not in REGISTERED:
        raise _invalid(update, f"Feature {update.name} not found.")
    needed = _NEEDS.get(update.name, 0)
    if update.level >= 1 and proposed[METADATA_VERSION] < needed:
        problem = f"{update.name} could not be set to {update.level} because it depends on {METADATA_VERSION} level {needed}"
        raise _invalid(update, problem)


def _elr_safety(state: ControllerState) -> list[MetadataRecord]:
    """Return the records that set `min.insync.replicas` for all brokers and delete it from single brokers, because with eligible leader
    replicas it must not depend on which broker leads."""
    records: list[MetadataRecord] = []
    if MIN_ISR not in state.catalog.configs(ResourceType.BROKER, CLUSTER_DEFAULT):
        records.append(ConfigRecord(ResourceType.BROKER, CLUSTER_DEFAULT, MIN_ISR, str(state.settings.value(MIN_ISR))))
    for broker_id in state.catalog.configured_resources(ResourceType.BROKER):
        if broker_id != CLUSTER_DEFAULT and MIN_ISR in state.catalog.configs(ResourceType.BROKER, broker_id):
            records.append(ConfigRecord(ResourceType.BROKER, broker_id, MIN_ISR, None))
    return records


def _invalid(update: FeatureUpdate, problem: str) -> Rejected:
    return Rejected(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {update.level} for feature {update.name}. {problem}")

"""The feature levels of Kafka's releases, as `kafka-storage format` writes them (Kafka's `MetadataVersion`, `Feature`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.broker.cluster.features import METADATA_LEVEL, METADATA_VERSION, REGISTERED
from ottla.broker.cluster.metadata_records import FeatureLevelRecord

KRAFT_VERSION: Final = "kraft.version"
_LOWEST: Final = REGISTERED[METADATA_VERSION][0]
_VERSIONS_OF_RELEASES: Final[Mapping[str, tuple[int, ...]]] = {
    "3.3": (3,),
    "3.4": (0,),
    "3.5": (0, 1, 2),
    "3.6": (0, 1, 2),
    "3.7": (0, 1, 2, 3, 4),
    "3.8": (0,),
    "3.9": (0,),
    "4.0": (0, 1, 2, 3),
    "4.1": (0, 1),
    "4.2": (0, 1),
    "4.3": (0,),
    "4.4": (0, 1, 2),
}
NAMES: Final = [f"{release}-IV{version}" for release, versions in _VERSIONS_OF_RELEASES.items() for version in versions]
"""The names of the levels of metadata.version, such as `4.3-IV0`, in ascending order. The first one is the name of level 7."""
assert len(NAMES) == METADATA_LEVEL - _LOWEST + 1

_ON_FROM: Final[Mapping[str, Mapping[int, int]]] = {
    "eligible.leader.replicas.version": {26: 1},
    "group.version": {22: 1},
    "share.version": {28: 1, 31: 2},
    "streams.version": {29: 1},
    "transaction.version": {24: 2},
}
"""The levels of features in a new cluster: for each feature, a mapping from a metadata.version (lowest first) to the level that the feature
has from this metadata.version on."""
_ELR_NEEDS: Final = 23


class UnknownLevel(ValueError):
    """An unknown release, feature or level; the text lists the known ones."""


def level_name(level: int) -> str:
    """Return the name of a level of metadata.version: `4.3-IV0` for 30."""
    return NAMES[level - _LOWEST]


def metadata_level(release: str) -> int:
    """Return the level of metadata.version that `release` names: a release (`4.0`, `4.0.1`) names its last level, `4.0-IV2` names that
    level. Raises `UnknownLevel` for any other name."""
    name = ".".join(release.split(".")[:2])
    if name in _VERSIONS_OF_RELEASES:
        name = f"{name}-IV{_VERSIONS_OF_RELEASES[name][-1]}"
    if name not in NAMES:
        raise UnknownLevel(f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(NAMES)}")
    return NAMES.index(name) + _LOWEST


def bootstrap_levels(requested: Mapping[str, int], release: str | None, *, dynamic_quorum: bool) -> dict[str, int]:
    """Return the feature levels of a new cluster: those of the Kafka release `release` (None: the newest), overridden by `requested`.
    kraft.version is 1 with `dynamic_quorum`, otherwise 0. Raises `UnknownLevel` for an unknown release, feature or level, or if both
    arguments determine `metadata.version`."""
    if METADATA_VERSION in requested and release is not None:
        raise UnknownLevel(f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity.")
    known = sorted(REGISTERED.keys() - {METADATA_VERSION})
    for name, level in requested.items():
        if name not in REGISTERED:
            raise UnknownLevel(f"Unsupported feature: {name}. Supported features are: {', '.join(known)}")
        low, high = REGISTERED[name]
        if not low <= level <= high:
            raise UnknownLevel(f"No feature:{name} with feature level {level}")
    if requested.get(KRAFT_VERSION, dynamic_quorum) != dynamic_quorum:
        quorum = "not set" if dynamic_quorum else "set"
        raise UnknownLevel(f"Cannot set kraft.version to {requested[KRAFT_VERSION]}: controller.quorum.voters is {quorum}")
    newest = requested.get(METADATA_VERSION, METADATA_LEVEL if release is None else metadata_level(release))
    levels = {name: level for name, steps in _ON_FROM.items() for since, level in steps.items() if newest >= since}
    levels |= {**requested, METADATA_VERSION: newest, KRAFT_VERSION: int(dynamic_quorum)}
    if levels.get("eligible.leader.replicas.version") and newest < _ELR_NEEDS:
        raise UnknownLevel(
            f"eligible.leader.replicas.version could not be set to 1 because it depends on {METADATA_VERSION} level {_ELR_NEEDS}"
        )
    return levels


def level_records(levels: Mapping[str, int]) -> Iterable[FeatureLevelRecord]:
    """Yield the feature records of a new cluster: metadata.version first, the others by name. There is no record for a feature at level 0,
    nor for kraft.version, which belongs to Raft."""
    yield FeatureLevelRecord(METADATA_VERSION, levels[METADATA_VERSION])
    for name in sorted(levels.keys() - {METADATA_VERSION, KRAFT_VERSION}):
        if levels[name]:
            yield FeatureLevelRecord(name, levels[name])

"""What changed between two releases of Apache Kafka, and the summary of one: the rows of `ottla releases` and of docs/releases.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.broker.releases.table import ReleaseTable

COLUMNS: Final = ("release", "recorded from", "mode", "metadata.version", "APIs", "broker settings", "topic settings", "other features")
KINDS: Final = {
    "apis": "API",
    "features": "feature",
    "broker_settings": "broker setting",
    "topic_settings": "topic setting",
    "group_settings": "group setting",
}
_METADATA: Final = "metadata.version"


class Change(NamedTuple):
    """One difference between two releases of Apache Kafka: an API, feature or setting. `before` or `after` is None if that release does not
    have it."""

    kind: str
    name: str
    before: str | None
    after: str | None


def summary(table: ReleaseTable) -> tuple[str, str, str, int | None, int, int, int, str | None]:
    """Return a release's row for the table of releases, the values of COLUMNS. The last value lists the features except metadata.version,
    each with its level in a new cluster; level 0 means that the feature is supported, but not enabled."""
    features = table.features
    others = ", ".join(f"{name} {level}" for name, (_, _, level) in features.items() if name != _METADATA)
    level = features[_METADATA][2] if _METADATA in features else None
    sizes = len(table.apis), len(table.broker_settings), len(table.topic_settings)
    return table.release, table.version, table.mode, level, *sizes, others or None


def changes(before: ReleaseTable, after: ReleaseTable) -> Iterator[Change]:
    """Yield the differences between the tables of two releases, sorted by kind and name."""
    yield from _changed("apis", _versions(before.apis), _versions(after.apis))
    yield from _changed("features", _levels(before.features), _levels(after.features))
    yield from _changed("broker_settings", _defaults(before.broker_settings), _defaults(after.broker_settings))
    yield from _changed("topic_settings", _defaults(before.topic_settings), _defaults(after.topic_settings))
    yield from _changed("group_settings", _defaults(before.group_settings), _defaults(after.group_settings))


def _changed(section: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield Change(KINDS[section], name, before.get(name), after.get(name))


def versions_text(first: int, last: int) -> str:
    """Return a range of versions or levels as text: `0-4`, or `3` if first and last are equal."""
    return str(first) if first == last else f"{first}-{last}"


def _versions(apis: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    return {name: versions_text(*versions) for name, versions in apis.items()}


def _levels(features: Mapping[str, tuple[int, int, int]]) -> dict[str, str]:
    return {name: f"{versions_text(low, high)}, new clusters {level}" for name, (low, high, level) in features.items()}


def _defaults(settings: Mapping[str, str | None]) -> dict[str, str]:
    return {name: "no default" if value is None else value for name, value in settings.items()}

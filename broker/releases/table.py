"""The table of a release of Apache Kafka, and the files in which the tables of all releases are stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

SECTIONS: Final = ("apis", "features", "broker_settings", "topic_settings", "group_settings")
"""The parts of a table that are mappings by name; each is a field of `ReleaseTable`."""


class UnknownRelease(ValueError):
    """There is no table of this release of Apache Kafka. The text lists the known releases."""


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseTable:
    """The APIs, features and settings that the broker of one release of Apache Kafka offers. `version` is the patch version of the broker
    from which the table was recorded, the last of the release: `3.9.2`."""

    release: str
    version: str
    mode: str
    """The mode in which the broker was recorded: `KRaft`, or `ZooKeeper` before 3.3."""
    apis: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The first and last version of each API of the broker's listener, by its name in Kafka's schemas (`Fetch`)."""
    features: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """For each supported feature: its lowest level, its highest level, and its level in a new cluster."""
    broker_settings: Mapping[str, str | None] = field(default_factory=dict)
    """The default of each setting of a broker as DescribeConfigs returns it; None if it has none."""
    topic_settings: Mapping[str, str | None] = field(default_factory=dict)
    """The default of each setting of a topic; None if it has none."""
    group_settings: Mapping[str, str | None] = field(default_factory=dict)
    """The default of each setting of a group, None if it has none; empty for releases whose groups have no settings."""


def order(release: str) -> tuple[int, int]:
    """Return the key by which releases are sorted: (3, 10) for `3.10`."""
    major, minor = release.split(".")
    return int(major), int(minor)


_OLDEST: Final = "0.0"


@cache
def releases(since: str = _OLDEST) -> Mapping[str, ReleaseTable]:
    """Return the tables of the release `since` and of all later releases, by release, the oldest first. Reads only the files of these
    releases."""
    found = {file.stem: file for file in Path(__file__).with_name("tables").glob("*.json")}
    return from_files({name: json.loads(file.read_text()) for name, file in found.items() if order(name) >= order(since)})


def table_of(name: str) -> ReleaseTable:
    """Return the table of a release (`3.9`) or of one of its patches (`3.9.0`; the table is the one recorded from the release's last
    patch). Raises `UnknownRelease`.
    """
    release = ".".join(name.split(".")[:2])
    if release not in releases():
        raise UnknownRelease(f"there is no table of Apache Kafka {name}; known releases: {', '.join(releases())}")
    return releases()[release]


def from_files(contents: Mapping[str, Mapping[str, Any]]) -> dict[str, ReleaseTable]:
    """Return the releases' tables, by release, the oldest first, from the contents of their files."""
    found: dict[str, ReleaseTable] = {}
    newer: Mapping[str, Mapping[str, Any]] = {section: {} for section in SECTIONS}
    for release in sorted(contents, key=order, reverse=True):
        content = contents[release]
        newer = {section: _applied(newer[section], content[section], content["without"][section]) for section in SECTIONS}
        found[release] = ReleaseTable(release, content["version"], content["mode"], **newer)
    return dict(reversed(found.items()))


def _applied(newer: Mapping[str, Any], other: Mapping[str, Any], without: list[str]) -> dict[str, Any]:
    kept = {name: value for name, value in newer.items() if name not in without}
    kept.update((name, tuple(value) if isinstance(value, list) else value) for name, value in other.items())
    return dict(sorted(kept.items()))


def to_files(tables: Mapping[str, ReleaseTable]) -> dict[str, str]:
    """Return the text of the file in which each release's table is stored, by release."""
    texts: dict[str, str] = {}
    newer: ReleaseTable | None = None
    for release in sorted(tables, key=order, reverse=True):
        table = tables[release]
        texts[release] = _text(table, newer)
        newer = table
    return texts


def _text(table: ReleaseTable, newer: ReleaseTable | None) -> str:
    content: dict[str, Any] = {"version": table.version, "mode": table.mode}
    without: dict[str, list[str]] = {}
    for section in SECTIONS:
        own: Mapping[str, Any] = getattr(table, section)
        theirs: Mapping[str, Any] = {} if newer is None else getattr(newer, section)
        content[section] = {name: own[name] for name in sorted(own) if name not in theirs or theirs[name] != own[name]}
        without[section] = sorted(theirs.keys() - own.keys())
    content["without"] = without
    return _in_lines(content) + "\n"


def _in_lines(value: Any, indent: str = "") -> str:
    """Return `value` as JSON with each name on its own line and arrays of numbers in one line, so that a changed value is a changed
    line."""
    if isinstance(value, dict) and value:
        inner = indent + " "
        return "{\n" + ",\n".join(f"{inner}{json.dumps(name)}: {_in_lines(each, inner)}" for name, each in value.items()) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        inner = indent + " "
        return "[\n" + ",\n".join(inner + json.dumps(each) for each in value) + f"\n{indent}]"
    return json.dumps(value)

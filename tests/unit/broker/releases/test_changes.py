"""The differences between two releases."""

from __future__ import annotations

from ottla.broker.releases.changes import COLUMNS, Change, changes, summary
from ottla.broker.releases.table import ReleaseTable, table_of

BEFORE = ReleaseTable("1.0", "1.0.0", "KRaft", {"Fetch": (0, 1), "Vote": (0, 0)}, {}, {"a": "1", "b": None}, {"same": "1"})
AFTER = ReleaseTable("1.1", "1.1.0", "KRaft", {"Fetch": (1, 1)}, {"x": (0, 2, 1)}, {"a": "2", "b": ""}, {"same": "1"})


def test_changes_lists_differences_of_apis_features_and_settings() -> None:
    assert list(changes(BEFORE, AFTER)) == [
        Change("API", "Fetch", "0-1", "1"),
        Change("API", "Vote", "0", None),
        Change("feature", "x", None, "0-2, new clusters 1"),
        Change("broker setting", "a", "1", "2"),
        Change("broker setting", "b", "no default", ""),
    ]


def test_a_release_does_not_differ_from_itself() -> None:
    assert list(changes(AFTER, AFTER)) == []


def test_the_summary_has_a_value_for_each_column() -> None:
    assert len(summary(BEFORE)) == len(COLUMNS)
    assert summary(BEFORE)[3] is None, "without metadata.version"
    assert summary(table_of("4.0"))[3] == table_of("4.0").features["metadata.version"][2]

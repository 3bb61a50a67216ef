"""Tables of releases, and the files that store them."""

from __future__ import annotations

import json

import pytest

from ottla.broker.releases.table import ReleaseTable, UnknownRelease, from_files, order, releases, table_of, to_files
from ottla.protocol.api_keys import ApiKey

OLD = ReleaseTable("3.9", "3.9.2", "KRaft", {"Fetch": (0, 17)}, {}, {"a": "1", "gone": None}, {"t": ""})
NEW = ReleaseTable(
    "3.10", "3.10.0", "KRaft", {"Fetch": (4, 17), "Vote": (0, 0)}, {"x.version": (0, 2, 1)}, {"a": "1", "b": None}, {"t": None}
)


def contents(table: ReleaseTable) -> tuple[object, ...]:
    return (
        table.release,
        table.version,
        table.mode,
        table.apis,
        table.features,
        table.broker_settings,
        table.topic_settings,
        table.group_settings,
    )


def test_tables_round_trip_through_their_files() -> None:
    read = from_files({release: json.loads(text) for release, text in to_files({"3.10": NEW, "3.9": OLD}).items()})
    assert list(read) == ["3.9", "3.10"]
    assert [contents(table) for table in read.values()] == [contents(OLD), contents(NEW)]


def test_a_file_has_only_the_differences_from_the_next_newer_release() -> None:
    written = json.loads(to_files({"3.9": OLD, "3.10": NEW})["3.9"])
    assert written["broker_settings"] == {"gone": None}, "a is equal in both"
    assert written["without"] == {
        "apis": ["Vote"],
        "features": ["x.version"],
        "broker_settings": ["b"],
        "topic_settings": [],
        "group_settings": [],
    }


def test_the_files_are_as_the_recorder_writes_them() -> None:
    from tests.support.release_tables import TABLES  # it imports what runs Apache Kafka

    assert to_files(releases()) == {file.stem: file.read_text() for file in TABLES.iterdir()}


def test_every_release_from_2_8_to_4_4_has_a_table() -> None:
    names = ["2.8", *(f"3.{minor}" for minor in range(10)), *(f"4.{minor}" for minor in range(5))]
    assert list(releases()) == names
    assert sorted(names, key=order) == names


def test_every_api_of_a_table_has_a_key() -> None:
    names = {key.camel_case for key in ApiKey}
    assert {api for table in releases().values() for api in table.apis} <= names


def test_the_tables_have_known_facts_of_releases() -> None:
    assert table_of("2.8").apis["Fetch"] == (0, 12), "Fetch 13 brought topic ids in 3.1 (KIP-516)"
    assert "ConsumerGroupHeartbeat" not in table_of("3.6").apis
    assert table_of("4.0").apis["Fetch"] == (4, 17), "4.0 removed versions of before 2.1 (KIP-896)"
    assert "transaction.version" not in table_of("3.9").features
    assert table_of("4.0").features["transaction.version"] == (0, 2, 2)
    assert table_of("3.3").features == {"metadata.version": (1, 7, 7)}
    assert (table_of("3.9").broker_settings["num.recovery.threads.per.data.dir"], table_of("2.8").mode) == ("1", "ZooKeeper")


def test_patch_version_selects_its_releases_table() -> None:
    assert table_of("3.7.0") is table_of("3.7")


@pytest.mark.parametrize("name", ["2.7", "5", "", "3.7x", "latest"])
def test_an_unknown_release_is_rejected_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownRelease, match=r"known releases: 2\.8, 3\.0"):
        table_of(name)

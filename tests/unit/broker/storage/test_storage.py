from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from ottla.broker.storage.dir_names import DELETE_SUFFIX, parse_partition_dir, partition_dir_name_with_suffix
from ottla.broker.storage.errors import Damage
from ottla.broker.storage.open_files import OpenFiles


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("a-0", ("a", 0)),
        ("with-dash-and.dot_-12", ("with-dash-and.dot_", 12)),
        ("__cluster_metadata-0", ("__cluster_metadata", 0)),
        ("a-01", None),
        ("a--1", ("a-", 1)),
        ("a", None),
        ("-0", None),
        ("..-0", None),
        (".-0", None),
        ("a-2147483648", None),
        ("a b-0", None),
        ("x" * 250 + "-0", None),
        ("a-0.0123456789abcdef0123456789abcdef-delete", None),
    ],
)
def test_a_directory_name_is_a_partition_or_nothing(name: str, parsed: tuple[str, int] | None) -> None:
    assert parse_partition_dir(name) == parsed


def test_a_renamed_directorys_name_has_at_most_255_characters() -> None:
    unique = uuid.UUID(int=0xABC).bytes
    assert partition_dir_name_with_suffix("a-b", 3, unique, DELETE_SUFFIX) == f"a-b-3.{'0' * 29}abc-delete"
    long = partition_dir_name_with_suffix("t" * 249, 3, unique, DELETE_SUFFIX)
    assert len(long) == 255
    assert long.endswith("abc-delete")
    assert parse_partition_dir(long) is None


def test_a_finding_has_file_position_reason_and_loss() -> None:
    assert str(Damage(Path("/d/t-0/1.log"), "torn", 100, 7)) == "/d/t-0/1.log at byte 100: torn; 7 bytes dropped"
    assert str(Damage(Path("/d/x"), "missing")) == "/d/x: missing"


def test_opening_more_than_allowed_closes_the_first_opened() -> None:
    open_files = OpenFiles(2)
    closed = []

    class Thing:
        def __init__(self, name: str) -> None:
            self.name = name

        def release(self) -> None:
            closed.append(self.name)
            open_files.closed(self)

    for name in "abcd":
        open_files.opened(Thing(name))
    assert closed == ["a", "b"]
    assert len(open_files) == 2

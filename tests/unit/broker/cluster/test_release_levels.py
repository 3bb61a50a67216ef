from __future__ import annotations

import pytest

from ottla.broker.cluster.release_levels import NAMES, UnknownLevel, bootstrap_levels, level_name, level_records, metadata_level


@pytest.mark.parametrize(
    ("release", "level"),
    [
        ("3.3", 7),
        ("3.5", 11),
        ("3.7", 19),
        ("3.9", 21),
        ("4.0", 25),
        ("4.0.1", 25),
        ("4.0-IV1", 23),
        ("4.1", 27),
        ("4.3", 30),
        ("4.3-IV0", 30),
        ("4.4", 33),
    ],
)
def test_a_release_has_its_last_metadata_version(release: str, level: int) -> None:
    assert metadata_level(release) == level


def test_every_metadata_version_is_found_by_its_name() -> None:
    assert [metadata_level(name) for name in NAMES] == list(range(7, 34))
    assert [level_name(level) for level in range(7, 34)] == NAMES


@pytest.mark.parametrize("release", ["3.2", "4.5", "4.4-IV3", "", "four", "4"])
def test_an_unknown_release_is_refused_with_the_list_of_releases(release: str) -> None:
    with pytest.raises(UnknownLevel, match=f"Unknown metadata.version '{release}'.* 3.3-IV3, .*4.4-IV2$"):
        metadata_level(release)


@pytest.mark.parametrize(
    ("release", "on"),
    [
        ("3.9", {}),
        ("4.0", {"group.version": 1, "transaction.version": 2}),
        ("4.1", {"group.version": 1, "transaction.version": 2, "eligible.leader.replicas.version": 1}),
        (
            "4.3",
            {"group.version": 1, "transaction.version": 2, "eligible.leader.replicas.version": 1, "share.version": 1, "streams.version": 1},
        ),
        (
            None,
            {"group.version": 1, "transaction.version": 2, "eligible.leader.replicas.version": 1, "share.version": 2, "streams.version": 1},
        ),
    ],
)
def test_a_new_cluster_has_the_features_of_its_release(release: str | None, on: dict[str, int]) -> None:
    level = 33 if release is None else metadata_level(release)
    assert bootstrap_levels({}, release, dynamic_quorum=True) == {**on, "metadata.version": level, "kraft.version": 1}
    assert bootstrap_levels({}, release, dynamic_quorum=False)["kraft.version"] == 0


def test_requested_feature_levels_override_the_releases() -> None:
    levels = bootstrap_levels({"group.version": 0, "metadata.version": 25}, None, dynamic_quorum=True)
    assert (levels["group.version"], levels["metadata.version"], levels["transaction.version"]) == (0, 25, 2)


@pytest.mark.parametrize(
    ("requested", "release", "words"),
    [
        ({"metadata.version": 25}, "4.0", "Use --release-version instead"),
        (
            {"no.version": 1},
            None,
            "Unsupported feature: no.version. Supported features are: eligible.leader.replicas.version, group.version",
        ),
        ({"group.version": 2}, None, "No feature:group.version with feature level 2"),
        ({"metadata.version": 6}, None, "No feature:metadata.version with feature level 6"),
        ({"kraft.version": 0}, None, "Cannot set kraft.version to 0"),
        ({"eligible.leader.replicas.version": 1}, "3.9", "depends on metadata.version level 23"),
    ],
)
def test_impossible_feature_levels_are_refused(requested: dict[str, int], release: str | None, words: str) -> None:
    with pytest.raises(UnknownLevel, match=words):
        bootstrap_levels(requested, release, dynamic_quorum=True)


def test_feature_records_start_with_metadata_version_and_omit_level_0() -> None:
    levels = {"transaction.version": 2, "kraft.version": 1, "group.version": 0, "metadata.version": 25, "share.version": 1}
    found = [(record.name, record.feature_level) for record in level_records(levels)]
    assert found == [("metadata.version", 25), ("share.version", 1), ("transaction.version", 2)]

from __future__ import annotations

from ottla.broker.cluster.features import dead_letters_enabled, finalized, new_levels, share_groups_enabled, streams_groups_enabled
from ottla.broker.releases.release_behaviour import behaviour_of, default_behaviour


def test_a_new_directory_has_the_feature_levels_of_kafka_4_4() -> None:
    assert list(new_levels(2, default_behaviour()).items()) == [
        ("metadata.version", 33),
        ("group.version", 1),
        ("share.version", 2),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]


def test_level_0_of_transaction_version_is_not_finalized() -> None:
    assert "transaction.version" not in new_levels(0, default_behaviour())
    assert "transaction.version" not in finalized({})


def test_a_log_keeps_its_metadata_version() -> None:
    assert finalized({"metadata.version": 27, "transaction.version": 1}) == {
        "metadata.version": 27,
        "group.version": 1,
        "transaction.version": 1,
    }


def test_an_unsupported_feature_is_not_finalized() -> None:
    assert finalized(
        {"metadata.version": 33, "share.version": 3, "streams.version": 2, "unknown.version": 1, "transaction.version": 3}
    ) == new_levels(2, default_behaviour())


def test_share_groups_are_disabled_in_an_older_directory() -> None:
    assert not share_groups_enabled({"metadata.version": 27, "group.version": 1})
    assert share_groups_enabled(new_levels(2, default_behaviour()))


def test_dead_letter_queues_came_with_kafka_4_4() -> None:
    assert not dead_letters_enabled(new_levels(2, behaviour_of("4.3")))
    assert dead_letters_enabled(new_levels(2, default_behaviour()))


def test_streams_groups_are_disabled_in_an_older_directory() -> None:
    assert not streams_groups_enabled({"metadata.version": 28, "share.version": 1})
    assert streams_groups_enabled(new_levels(2, default_behaviour()))

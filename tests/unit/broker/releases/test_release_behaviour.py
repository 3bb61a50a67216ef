"""The behaviour of a broker that is like a release, derived from the release's table."""

from __future__ import annotations

import pytest

from ottla.broker.releases.release_behaviour import DEFAULT_RELEASE, default_behaviour
from ottla.broker.releases.release_behaviour import behaviour_of as like
from ottla.broker.releases.table import UnknownRelease


def test_versions_are_those_that_both_serve() -> None:
    assert like("3.7").versions("Fetch", 4, 18) == (4, 16)
    assert like("3.7").versions("Metadata", 0, 13) == (0, 12)


def test_an_api_that_a_release_lacks_is_not_served() -> None:
    assert like("3.6").versions("ConsumerGroupHeartbeat", 0, 1) is None


def test_versions_that_only_the_release_serves_are_not_offered() -> None:
    assert like("2.8").versions("Fetch", 13, 18) is None


def test_a_default_that_changed_is_the_releases() -> None:
    assert like("3.9").default("num.recovery.threads.per.data.dir", "2") == "1"
    assert like("4.0").default("group.coordinator.rebalance.protocols", "classic,consumer,streams") == "classic,consumer"


def test_a_default_that_is_ottlas_own_stays() -> None:
    assert like("3.9").default("node.id", "1") == "1"
    assert like("3.9").default("log.dir", "ottla-data") == "ottla-data"


def test_a_setting_of_later_releases_has_its_first_default() -> None:
    assert like("2.8").lacks("log.message.timestamp.after.max.ms")
    assert like("2.8").default("log.message.timestamp.after.max.ms", "3600000") == "9223372036854775807", "as in 3.6, which brought it"


def test_transactions_are_verified_since_3_6() -> None:
    verified = {release: like(release).default("transaction.partition.verification.enable", "true") for release in ("3.5", "3.6")}
    assert verified == {"3.5": "false", "3.6": "true"}


def test_the_transaction_version_of_a_release_is_its_features_level() -> None:
    assert {release: like(release).default("transaction.version", "2") for release in ("3.9", "4.0")} == {"3.9": "0", "4.0": "2"}


def test_levels_above_a_release_are_named() -> None:
    assert list(like("3.7").above({"metadata.version": 19})) == []
    assert list(like("3.7").above({"metadata.version": 30, "transaction.version": 2})) == [
        "metadata.version is at level 30, and Apache Kafka 3.7 supports at most 19",
        "transaction.version is at level 2, and Apache Kafka 3.7 does not have this feature",
    ]


def test_a_release_with_zookeeper_has_no_metadata_version_to_be_above() -> None:
    assert list(like("2.8").above({"metadata.version": 30})) == []


def test_the_default_release_has_a_behaviour_like_any_other() -> None:
    assert like(DEFAULT_RELEASE) is default_behaviour()


def test_release_lacks_apis_and_settings_that_a_later_one_added() -> None:
    assert (like("4.3").versions("TxnOffsetCommit", 0, 6), like("4.4").versions("TxnOffsetCommit", 0, 6)) == ((0, 5), (0, 6))
    assert like("4.3").lacks("max.decompressed.message.bytes")
    assert not like("4.4").lacks("max.decompressed.message.bytes")


def test_group_behaviour_of_4_4_starts_with_4_4() -> None:
    assert (like("4.3").extends_streams_groups, like("4.4").extends_streams_groups) == (False, True)
    assert (like("4.3").assigns_empty_groups, like("4.4").assigns_empty_groups) == (False, True)
    assert (like("4.3").reads_added_partitions_whole, like("4.4").reads_added_partitions_whole) == (False, True)
    assert (like("4.3").follows_preferred_assignor, like("4.4").follows_preferred_assignor) == (False, True)


def test_group_behaviour_of_4_3_starts_with_4_3() -> None:
    assert (like("4.2").delays_assignments, like("4.3").delays_assignments) == (False, True)
    assert (like("4.2").accepts_late_commits, like("4.3").accepts_late_commits) == (False, True)
    assert (like("4.2").reads_share_state_unfenced, like("4.3").reads_share_state_unfenced) == (False, True)


def test_client_telemetry_behaviour_of_4_0_starts_with_4_0() -> None:
    assert [like(release).allows_telemetry_retry_after_error for release in ("3.7", "3.9", "4.0")] == [False, False, True]
    assert [like(release).forgets_closed_clients for release in ("3.7", "3.9", "4.0")] == [False, False, True]


def test_a_version_of_a_release_has_the_releases_behaviour() -> None:
    assert like("3.7.1") is like("3.7")


@pytest.mark.parametrize("name", ["4.5", "2.7", "newest"])
def test_a_release_that_cannot_be_imitated_is_rejected(name: str) -> None:
    with pytest.raises(UnknownRelease):
        like(name)

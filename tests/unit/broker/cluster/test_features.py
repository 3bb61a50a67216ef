from __future__ import annotations

from ottla.broker.cluster.features import finalized, new_levels


def test_a_new_directory_has_the_levels_of_a_new_kafka_4_3_metadata_version_first() -> None:
    assert list(new_levels(2).items()) == [("metadata.version", 30), ("group.version", 1), ("transaction.version", 2)]


def test_level_0_of_transactions_is_no_level() -> None:
    assert "transaction.version" not in new_levels(0)
    assert "transaction.version" not in finalized({})


def test_a_log_keeps_the_level_that_it_was_written_at() -> None:
    assert finalized({"metadata.version": 27, "transaction.version": 1}) == {
        "metadata.version": 27,
        "group.version": 1,
        "transaction.version": 1,
    }


def test_what_is_not_supported_is_not_finalized() -> None:
    assert finalized({"metadata.version": 30, "share.version": 1, "transaction.version": 3}) == new_levels(2)

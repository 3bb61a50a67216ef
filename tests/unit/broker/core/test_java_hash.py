from __future__ import annotations

import pytest

from ottla.broker.core.java_hash import fetcher_of, partition_of


@pytest.mark.parametrize(
    ("name", "partition"),
    [("", 0), ("g", 3), ("my-group", 12), ("äöü", 36), ("😀", 49), ("polygenelubricants", 0), ("console-consumer-12345", 6), ("gr中", 30)],
)
def test_a_name_lives_in_the_partition_that_javas_hash_gives(name: str, partition: int) -> None:
    """The figures are those of Java; "polygenelubricants" hashes to the one number that has no positive twin."""
    assert partition_of(name, 50) == partition


def test_a_name_of_any_length_is_hashed_alike() -> None:
    """A run of NUL characters adds nothing but a power of 31."""
    assert partition_of("\0" * 30_000, 50) == 0
    assert partition_of("\0" * 30_000 + "g", 50) == partition_of("g", 50)


@pytest.mark.parametrize(("topic", "partition", "fetcher"), [("t", 0, 5), ("t", 3, 1), ("polygenelubricants", 0, 0), ("my-topic", 1, 1)])
def test_a_partition_is_fetched_by_the_fetcher_that_javas_hash_gives(topic: str, partition: int, fetcher: int) -> None:
    """|31 * hash + partition| mod 7, with the wrap of a Java int; "polygenelubricants" has the hash -2^31."""
    assert fetcher_of(topic, partition, 7) == fetcher

from __future__ import annotations

import pytest

from ottla.broker.core.java_hash import fetcher_of, in_hash_order, partition_of, string_hash


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


def test_numbers_are_in_the_order_of_their_slots_of_which_there_are_more_than_numbers() -> None:
    assert in_hash_order([17, 15, 16, 17], int) == [16, 17, 15]
    assert in_hash_order([31, 15, 0], int) == [0, 31, 15], "who came first into a slot is first"
    assert in_hash_order(range(13), int) == list(range(13))
    assert in_hash_order([*range(20, 32), 1], int) == [1, *range(20, 32)], "13 are too many for 16 slots"


def test_strings_are_in_the_order_of_their_hashes() -> None:
    """ "polygenelubricants" has the hash 0x80000000, whose upper half lands in slot 0."""
    assert in_hash_order(["b", "a", "polygenelubricants"], string_hash) == ["polygenelubricants", "a", "b"]

from __future__ import annotations

import pytest

from ottla.broker.core.java_hash import fetcher_of, in_hash_order, partition_of, string_hash


@pytest.mark.parametrize(
    ("name", "partition"),
    [("", 0), ("g", 3), ("my-group", 12), ("äöü", 36), ("😀", 49), ("polygenelubricants", 0), ("console-consumer-12345", 6), ("gr中", 30)],
)
def test_a_name_is_stored_in_the_partition_of_its_java_hash(name: str, partition: int) -> None:
    """The expected values were computed by Java. "polygenelubricants" hashes to -2^31, which has no positive counterpart."""
    assert partition_of(name, 50) == partition


def test_a_name_that_is_too_long_for_the_cache_has_the_same_hash() -> None:
    """Leading NUL characters contribute nothing to the hash but a power of 31."""
    assert partition_of("\0" * 30_000, 50) == 0
    assert partition_of("\0" * 30_000 + "g", 50) == partition_of("g", 50)


@pytest.mark.parametrize(("topic", "partition", "fetcher"), [("t", 0, 5), ("t", 3, 1), ("polygenelubricants", 0, 0), ("my-topic", 1, 1)])
def test_a_partition_is_assigned_to_the_fetcher_of_its_java_hash(topic: str, partition: int, fetcher: int) -> None:
    """The expected value is |31 * hash + partition| mod 7 with the overflow of a Java int; "polygenelubricants" has the hash -2^31."""
    assert fetcher_of(topic, partition, 7) == fetcher


def test_numbers_are_ordered_by_hash_map_slot_when_the_map_has_grown() -> None:
    assert in_hash_order([17, 15, 16, 17], int) == [16, 17, 15]
    assert in_hash_order([31, 15, 0], int) == [0, 31, 15], "who came first into a slot is first"
    assert in_hash_order(range(13), int) == list(range(13))
    assert in_hash_order([*range(20, 32), 1], int) == [1, *range(20, 32)], "13 are too many for 16 slots"


def test_map_filled_by_compute_if_absent_is_ordered_like_javas() -> None:
    assert in_hash_order([31, 15, 0], int, if_absent=True) == [0, 15, 31]
    keys = [17, *range(2, 14)]
    assert in_hash_order(keys, int) == [*range(2, 14), 17]
    assert in_hash_order(keys, int, if_absent=True) == [17, *range(2, 14)], "12 keys are not too many for 16 slots"
    assert in_hash_order([*keys, 2], int, if_absent=True) == [*range(2, 14), 17], "a call for a present key enlarges the map, too"


def test_strings_are_ordered_by_the_slot_of_their_hash() -> None:
    """ "polygenelubricants" has the hash 0x80000000, whose upper half is mixed into slot 0."""
    assert in_hash_order(["b", "a", "polygenelubricants"], string_hash) == ["polygenelubricants", "a", "b"]

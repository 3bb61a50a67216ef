"""The position of an acknowledged record as one number: partition and offset, or a code below zero."""

from __future__ import annotations

OFFSET_BITS = 48
NOT_ACKED = -1
REFUSED = -2
SOMEWHERE = -3
"""The code for a record that was acknowledged as a duplicate, so that the client does not know its position."""
GIVEN_UP = -4
"""The code for a record that was given up without a response, because its client could not continue and was replaced. The record may be
stored, once."""


def place(partition: int, offset: int) -> int:
    """Return one integer that stands for a partition and an offset in it."""
    return partition << OFFSET_BITS | offset


def partition_and_offset(place: int) -> tuple[int, int]:
    """Return the partition and the offset of an integer that `place` made."""
    return place >> OFFSET_BITS, place & (1 << OFFSET_BITS) - 1


def describe_place(place: int) -> str:
    """Describe the position `place` as text."""
    partition, offset = partition_and_offset(place)
    return f"partition {partition} offset {offset}"

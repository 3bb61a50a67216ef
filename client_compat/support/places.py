"""Where a record was acknowledged, as one number: partition and offset, or a code below zero."""

from __future__ import annotations

OFFSET_BITS = 48
NOT_ACKED = -1
REFUSED = -2
SOMEWHERE = -3
"""Acknowledged, but the client could not say where: it was told that the broker has it already."""
GIVEN_UP = -4
"""Taken back unanswered, with a client that could not go on: it may be there, once."""


def place(partition: int, offset: int) -> int:
    """One number for a partition and an offset."""
    return partition << OFFSET_BITS | offset


def partition_and_offset(place: int) -> tuple[int, int]:
    """What `place` made one number of."""
    return place >> OFFSET_BITS, place & (1 << OFFSET_BITS) - 1


def describe_place(place: int) -> str:
    """A place in words."""
    partition, offset = partition_and_offset(place)
    return f"partition {partition} offset {offset}"

"""Sequence numbers of idempotent producers: 0 to 2^31-1, then 0 again (Kafka: DefaultRecordBatch.incrementSequence)."""

from __future__ import annotations

from typing import Final

_MODULUS: Final = 2**31


def increment_sequence(sequence: int, delta: int) -> int:
    """`delta` records after `sequence`."""
    return (sequence + delta) % _MODULUS


def decrement_sequence(sequence: int, delta: int) -> int:
    """`delta` records before `sequence`."""
    return (sequence - delta) % _MODULUS

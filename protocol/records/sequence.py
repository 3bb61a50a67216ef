"""Sequence numbers of idempotent producers, which wrap from 2^31-1 to 0 (Kafka: DefaultRecordBatch.incrementSequence)."""

from __future__ import annotations

from typing import Final

_MODULUS: Final = 2**31


def increment_sequence(sequence: int, delta: int) -> int:
    """Return the sequence `delta` records after `sequence`."""
    return (sequence + delta) % _MODULUS


def decrement_sequence(sequence: int, delta: int) -> int:
    """Return the sequence `delta` records before `sequence`."""
    return (sequence - delta) % _MODULUS

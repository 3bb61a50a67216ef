from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.records.sequence import decrement_sequence, increment_sequence

LAST = 2**31 - 1
SEQUENCES = st.integers(0, LAST)


def test_the_last_sequence_is_followed_by_zero() -> None:
    assert increment_sequence(LAST, 1) == 0
    assert increment_sequence(LAST - 2, 5) == 2
    assert decrement_sequence(0, 1) == LAST
    assert decrement_sequence(2, 5) == LAST - 2


@given(SEQUENCES, SEQUENCES)
def test_both_directions_follow_kafkas_formulas_and_undo_each_other(sequence: int, delta: int) -> None:
    forward = increment_sequence(sequence, delta)
    assert forward == (sequence + delta if sequence <= LAST - delta else delta - (LAST - sequence) - 1)
    assert decrement_sequence(sequence, delta) == (sequence - delta if sequence >= delta else LAST - (delta - sequence) + 1)
    assert decrement_sequence(forward, delta) == sequence

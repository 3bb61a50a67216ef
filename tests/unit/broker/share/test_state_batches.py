from __future__ import annotations

import pytest

from ottla.broker.share.persister import StateBatch
from ottla.broker.share.state_batches import combine

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


@pytest.mark.parametrize(
    ("so_far", "new", "start", "expected"),
    [
        ([(0, 9, 0, 1)], [(10, 19, 0, 1)], 0, [(0, 19, 0, 1)]),
        ([(0, 9, 0, 1)], [(10, 19, 2, 1)], 0, [(0, 9, 0, 1), (10, 19, 2, 1)]),
        ([(0, 9, 0, 1)], [(3, 5, 2, 1)], 0, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 9, 0, 2)], [(3, 5, 2, 1)], 0, [(0, 9, 0, 2)]),
        ([(0, 9, 2, 1)], [(5, 14, 0, 2)], 0, [(0, 4, 2, 1), (5, 14, 0, 2)]),
        ([(0, 9, 0, 2)], [(0, 14, 0, 1)], 0, [(0, 9, 0, 2), (10, 14, 0, 1)]),
        ([(0, 9, 0, 1), (20, 29, 0, 1)], [], 25, [(25, 29, 0, 1)]),
        ([(0, 9, 0, 1)], [(0, 9, 0, 1)], -1, [(0, 9, 0, 1)]),
        ([(0, 9, 0, 2)], [(10, 20, 0, 1), (10, 20, 0, 2)], 0, [(0, 9, 0, 2), (10, 20, 0, 2)]),
    ],
)
def test_batches_are_combined_as_kafka_does(
    so_far: list[tuple[int, int, int, int]],
    new: list[tuple[int, int, int, int]],
    start: int,
    expected: list[tuple[int, int, int, int]],
) -> None:
    assert combine([StateBatch(*one) for one in so_far], [StateBatch(*one) for one in new], start) == expected


def test_batches_that_touch_are_joined_as_kafka_4_4_does() -> None:
    so_far, new = [StateBatch(1, 1, 4, 1), StateBatch(2, 3, 3, 1)], [StateBatch(2, 3, 4, 1)]
    assert combine(so_far, new, 0) == [StateBatch(1, 1, 4, 1), StateBatch(2, 3, 4, 1)]
    assert combine(so_far, new, 0, joins=True) == [StateBatch(1, 3, 4, 1)]
    assert combine([], [StateBatch(1, 1, 4, 1), StateBatch(3, 3, 4, 1)], 0, joins=True) == [StateBatch(1, 1, 4, 1), StateBatch(3, 3, 4, 1)]

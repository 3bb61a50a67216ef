"""A share partition under random members, lock timeouts, failing writes, crashes, compaction and deleted records, checked against a
model."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from ottla.broker.share.persister import StateBatch
from ottla.broker.share.state_batches import combine
from tests.support.shared_partition import SharedPartition


@pytest.mark.parametrize("seed", range(100))
def test_a_record_has_one_owner_and_is_delivered_until_it_is_accepted_or_given_up(seed: int) -> None:
    shared = SharedPartition(seed)
    for _ in range(400):
        shared.step()
        assert shared.violations == []
    assert shared.settle() == []
    assert shared.violations == []


@pytest.mark.parametrize("seed", range(100))
def test_combined_state_batches_have_the_newest_state_of_each_offset(seed: int) -> None:
    draw = random.Random(seed)
    batches = []
    for _ in range(draw.randrange(12)):
        first = draw.randrange(30)
        batches.append(StateBatch(first, first + draw.randrange(10), draw.choice([0, 2, 4]), draw.randrange(1, 4)))
    start = draw.choice([-1, 0, 5, 20])
    half = draw.randrange(len(batches) + 1)
    combined = combine(batches[:half], batches[half:], start)
    expected: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(max(first, start), last + 1):
            expected[offset] = max(expected.get(offset, (0, 0)), (count, state))
    found = {offset: (count, state) for first, last, state, count in combined for offset in range(first, last + 1)}
    assert found == expected
    assert all(left.last_offset < right.first_offset for left, right in pairwise(combined))

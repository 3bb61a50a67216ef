"""Merges batches of share partitions' delivery states (Kafka's PersisterStateBatchCombiner)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain

from ottla.broker.share.persister import UNINITIALIZED_START_OFFSET, StateBatch

_Sorted = tuple[int, int, int, int]
"""A batch of delivery states as a tuple in the order in which Kafka compares batches: (first offset, last offset, delivery count, delivery
state)."""


def combine(so_far: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int, *, joins: bool = False) -> list[StateBatch]:
    """Merge the present batches of delivery states with new ones. Return batches that do not overlap, in order, without offsets below the
    start offset.

    If an offset has two states, the one with the higher delivery count wins; with equal counts, the one with the higher state number.
    Adjacent batches with the same state and delivery count are merged. Without `joins` (before Kafka 4.4) they stay separate if a batch
    between them was replaced. The batches are exactly those of Kafka, because they are written to the log.
    """
    heap = [_sorted(kept) for batch in chain(so_far, new) if (kept := _from(start_offset, batch)) is not None]
    heapq.heapify(heap)
    combined: list[StateBatch] = []
    while heap:
        batch = heapq.heappop(heap)
        if heap and _meet(batch, heap[0]):
            for piece in _merged(batch, heapq.heappop(heap)):
                heapq.heappush(heap, piece)
        else:
            first, last, count, state = batch
            if joins and combined and combined[-1] == (combined[-1].first_offset, first - 1, state, count):
                combined[-1] = combined[-1]._replace(last_offset=last)
            else:
                combined.append(StateBatch(first, last, state, count))
    return combined


def _from(start_offset: int, batch: StateBatch) -> StateBatch | None:
    if start_offset == UNINITIALIZED_START_OFFSET or batch.first_offset >= start_offset:
        return batch
    return batch._replace(first_offset=start_offset) if batch.last_offset >= start_offset else None


def _sorted(batch: StateBatch) -> _Sorted:
    return batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state


def _meet(left: _Sorted, right: _Sorted) -> bool:
    return right[0] <= left[1] + (left[2:] == right[2:])


def _merged(left: _Sorted, right: _Sorted) -> Iterator[_Sorted]:
    """Yield the batches that replace `left` and `right`, which overlap, or are adjacent and have the same state. `left` does not begin
    after `right`."""
    if left[2:] == right[2:]:
        yield left[0], max(left[1], right[1]), *left[2:]
    elif right[2:] > left[2:]:
        if left[0] < right[0]:
            yield left[0], right[0] - 1, *left[2:]
        yield right
        if right[1] < left[1]:
            yield right[1] + 1, left[1], *left[2:]
    else:
        yield left
        if left[1] < right[1]:
            yield left[1] + 1, right[1], *right[2:]

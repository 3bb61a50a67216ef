from __future__ import annotations

import random

import pytest

from ottla.broker.core.java_heap import JavaHeap


def drained(heap: JavaHeap[tuple[int, str]]) -> list[tuple[int, str]]:
    return [heap.pop() for _ in range(len(heap))]


@pytest.mark.parametrize("seed", range(20))
def test_items_are_returned_by_key(seed: int) -> None:
    print(f"seed {seed}")
    drawn = random.Random(seed)
    items = [(drawn.randrange(5), str(i)) for i in range(30)]
    assert [key for key, _ in drained(JavaHeap(items, lambda item: item[0]))] == sorted(key for key, _ in items)


def test_equal_items_are_returned_in_javas_order() -> None:
    """The expected order was printed by java.util.PriorityQueue."""
    heap = JavaHeap([(0, name) for name in "abcdefg"], lambda item: item[0])
    assert "".join(name for _, name in drained(heap)) == "agfedcb"


def test_an_item_that_is_added_again_is_behind_its_equals() -> None:
    heap = JavaHeap([(0, "a"), (0, "b"), (0, "c")], lambda item: item[0])
    heap.push(heap.pop())
    assert "".join(name for _, name in drained(heap)) == "cab"


def test_an_empty_heap_returns_nothing() -> None:
    with pytest.raises(IndexError):
        JavaHeap[int]([], float).pop()

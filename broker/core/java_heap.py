"""A priority queue with the algorithm of `java.util.PriorityQueue`. If several items are equally small, it returns the one that Java
returns; `heapq` may return another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaHeap(Generic[T]):
    """A binary heap with the algorithm of `java.util.PriorityQueue`, so that equal items are returned in Java's order. An item's key must
    not change while the item is in the heap.
    """

    def __init__(self, items: Iterable[T], key: Callable[[T], float]) -> None:
        self._key = key
        self._items: list[T] = []
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: T) -> None:
        """Add an item to the heap. It moves up past the parents that are greater, as in `java.util.PriorityQueue`."""
        items, place = self._items, len(self._items)
        items.append(item)
        while place and self._key(items[parent := (place - 1) // 2]) > self._key(item):
            items[place], items[parent] = items[parent], item
            place = parent

    def pop(self) -> T:
        """Remove and return a smallest item. The last item then moves down from the root past smaller children; if both children are equal,
        past the left one. Raises IndexError for an empty heap."""
        items, item = self._items, self._items.pop()
        if not items:
            return item
        least, items[0], place = items[0], item, 0
        while (child := 2 * place + 1) < len(items):
            if child + 1 < len(items) and self._key(items[child + 1]) < self._key(items[child]):
                child += 1
            if self._key(item) <= self._key(items[child]):
                break
            items[place], items[child] = items[child], item
            place = child
        return least

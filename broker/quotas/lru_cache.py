"""A cache of values by key, with a memory limit and an idle timeout.

The memory limit is needed because a client may use another client id in each request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ottla.broker.core import limits

IDLE_MS: Final = 3_600_000
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class LruCache(Generic[KeyT, ValueT]):
    """A cache with a memory limit and an idle timeout, which evicts the least recently used keys first.

    Adding a key evicts keys that were not used for IDLE_MS, and more while the estimated size exceeds `limits.MEASURED_BYTES`. `make`
    creates the value for a new or expired key. `name_bytes` returns the size of the key's text, for the estimate.
    """

    def __init__(self, make: Callable[[], ValueT], name_bytes: Callable[[KeyT], int]) -> None:
        self._make, self._name_bytes = make, name_bytes
        self._known: dict[KeyT, tuple[ValueT, int]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def of(self, key: KeyT, now_ms: int) -> ValueT:
        """Return the value of a key and record its use; create the value if the key is new or was idle for IDLE_MS."""
        value, used_ms = self._known.pop(key, (None, now_ms))
        if value is None:
            self._bytes += self._size(key)
            self._forget(now_ms)
        if value is None or now_ms - used_ms >= IDLE_MS:
            value = self._make()
        self._known[key] = value, now_ms  # insertion at the end keeps the keys in the order of their last use
        return value

    def _forget(self, now_ms: int) -> None:
        while self._known:
            key, (_, used_ms) = next(iter(self._known.items()))
            if now_ms - used_ms < IDLE_MS and self._bytes <= limits.MEASURED_BYTES:
                return
            del self._known[key]
            self._bytes -= self._size(key)

    def _size(self, key: KeyT) -> int:
        return limits.MEASURED_BYTES_EACH + self._name_bytes(key)

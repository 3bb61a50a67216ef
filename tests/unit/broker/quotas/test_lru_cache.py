from __future__ import annotations

from ottla.broker.core import limits
from ottla.broker.quotas.lru_cache import IDLE_MS, LruCache


def lru_cache() -> LruCache[str, list[int]]:
    return LruCache(list, len)


def test_a_key_is_removed_after_an_idle_hour() -> None:
    found = lru_cache()
    for number in range(1_000):
        found.of(f"c{number}", number).append(number)
    assert found.of("c999", IDLE_MS) == [999]
    found.of("last", IDLE_MS + 500)
    assert len(found) == 500
    assert found.of("c999", 2 * IDLE_MS) == []


def test_the_least_recently_used_keys_are_removed_when_memory_is_full() -> None:
    found = lru_cache()
    found.of("first", 0).append(0)
    of_each = limits.MEASURED_BYTES_EACH + len("first")
    for number in range(limits.MEASURED_BYTES // of_each):
        found.of(f"{number:05}", 1)
    assert len(found) == limits.MEASURED_BYTES // of_each
    assert found.of("first", 1) == []


def test_long_names_count_with_their_size() -> None:
    found = lru_cache()
    for number in range(10_000):
        found.of(f"{number:05}" + 30_000 * "x", 0)
    assert len(found) < 2_200

"""Where a name lives: Kafka spreads groups over `__consumer_offsets`, and transactional ids over `__transaction_state`, by Java's hash.

Some of what Kafka's controller writes is in the order of a `java.util.HashMap`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

PARTITIONS_REMEMBERED = 4_096
"""Names whose partition need not be computed at each heartbeat: at 100 bytes each half a megabyte."""

_REMEMBERED_CHARS_MAX = 256
"""Longer names are hashed each time: 4,096 ids of 30 KB would hold 120 MB."""


def partition_of(name: str, partition_count: int) -> int:
    """The partition that holds `name`: Java's String.hashCode over UTF-16 code units, made positive as KAFKA Utils.abs does."""
    if len(name) <= _REMEMBERED_CHARS_MAX:
        return _remembered(name, partition_count)
    return _positive_hash(name) % partition_count


@lru_cache(maxsize=PARTITIONS_REMEMBERED)
def _remembered(name: str, partition_count: int) -> int:
    return _positive_hash(name) % partition_count


def fetcher_of(topic: str, partition: int, fetchers: int) -> int:
    """Which of num.replica.fetchers fetches a partition (KAFKA AbstractFetcherManager.getFetcherId)."""
    return _positive((31 * string_hash(topic) + partition) & 0xFFFFFFFF) % fetchers


def in_hash_order(keys: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """Each key once, in the order in which a `java.util.HashMap` goes through them that they were put into in this order.

    `hash_of` gives Java's hash of a key: `int` for a number that is not negative, `string_hash` for a string.
    """
    found = list(dict.fromkeys(keys))
    slots = 16
    while len(found) * 4 > slots * 3:
        slots *= 2

    def slot(key: T) -> int:
        code = hash_of(key)
        return (code ^ code >> 16) & (slots - 1)

    return sorted(found, key=slot)


def _positive_hash(name: str) -> int:
    return _positive(string_hash(name))


def string_hash(name: str) -> int:
    """Java's `String.hashCode` over UTF-16 code units, as the unsigned number of the same 32 bits."""
    code = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        code = (31 * code + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return code


def _positive(code: int) -> int:
    if code == 0x80000000:
        return 0
    return code if code < 0x80000000 else 0x100000000 - code

"""Java's string hash, which maps groups to partitions of `__consumer_offsets`, and transactional ids to partitions of
`__transaction_state`; and the iteration order of a `java.util.HashMap`.

Kafka's controller writes some records in the iteration order of a HashMap, and some of its group assignors assign partitions in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

PARTITIONS_REMEMBERED = 4_096
"""The number of names (group ids and transactional ids) whose partition of the internal topic is cached, so that a heartbeat need not hash
its group id: 4,096 entries of 100 bytes are half a megabyte.
"""

_REMEMBERED_CHARS_MAX = 256
"""The longest group id or transactional id whose partition is cached: 4,096 ids of 30 KB would hold 120 MB."""


def partition_of(name: str, partition_count: int) -> int:
    """Return the partition of an internal topic that stores `name` (a group id or transactional id): Java's String.hashCode of the name,
    made non-negative as by KAFKA Utils.abs, modulo the partition count.
    """
    if len(name) <= _REMEMBERED_CHARS_MAX:
        return _remembered(name, partition_count)
    return _positive_hash(name) % partition_count


@lru_cache(maxsize=PARTITIONS_REMEMBERED)
def _remembered(name: str, partition_count: int) -> int:
    return _positive_hash(name) % partition_count


def fetcher_of(topic: str, partition: int, fetchers: int) -> int:
    """Return the index, below `fetchers` (num.replica.fetchers), of the replica fetcher that fetches the partition (KAFKA
    AbstractFetcherManager.getFetcherId).
    """
    return _positive((31 * string_hash(topic) + partition) & 0xFFFFFFFF) % fetchers


def in_hash_order(keys: Iterable[T], hash_of: Callable[[T], int], capacity: int = 16, *, if_absent: bool = False) -> list[T]:
    """Return each key once, in the iteration order of a `java.util.HashMap` into which the keys were inserted in the given order.

    `hash_of` returns Java's hash of a key: `int` for a non-negative number, `string_hash` for a string. `capacity` is the map's initial
    capacity. With `if_absent` the keys were inserted with `computeIfAbsent` instead of `put`. Unlike `put`, `computeIfAbsent` inserts a key
    at the front of its bucket. It also resizes an overfull map later: not after an insertion, but at the next call.
    """
    calls = list(keys)
    found = list(dict.fromkeys(calls))
    size = len(set(calls[:-1])) if if_absent else len(found)
    slots = 1 << (capacity - 1).bit_length()
    while size * 4 > slots * 3:
        slots *= 2
    if if_absent:
        found.reverse()

    def slot(key: T) -> int:
        code = hash_of(key)
        return (code ^ code >> 16) & (slots - 1)

    return sorted(found, key=slot)


def _positive_hash(name: str) -> int:
    return _positive(string_hash(name))


def string_hash(name: str) -> int:
    """Return Java's `String.hashCode` over UTF-16 code units, as an unsigned 32-bit number."""
    code = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        code = (31 * code + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return code


def uuid_hash(raw: bytes) -> int:
    """Return the `hashCode` of Kafka's `Uuid`, as an unsigned 32-bit number."""
    words = [int.from_bytes(raw[start : start + 4], "big") for start in range(0, 16, 4)]
    return words[0] ^ words[1] ^ words[2] ^ words[3]


def _positive(code: int) -> int:
    if code == 0x80000000:
        return 0
    return code if code < 0x80000000 else 0x100000000 - code

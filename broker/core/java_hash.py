"""Where a name lives: Kafka spreads groups over `__consumer_offsets`, and transactional ids over `__transaction_state`, by Java's hash."""

from __future__ import annotations

from functools import lru_cache

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
    return _positive((31 * _hash(topic) + partition) & 0xFFFFFFFF) % fetchers


def _positive_hash(name: str) -> int:
    return _positive(_hash(name))


def _hash(name: str) -> int:
    code = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        code = (31 * code + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return code


def _positive(code: int) -> int:
    if code == 0x80000000:
        return 0
    return code if code < 0x80000000 else 0x100000000 - code

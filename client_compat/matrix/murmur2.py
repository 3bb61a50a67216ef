"""The hash with which the Java client chooses a key's partition, to compare other clients with it.

Source: 32-bit MurmurHash2 with the seed of `org.apache.kafka.common.utils.Utils.murmur2`; `BuiltInPartitioner` takes it modulo the number
of partitions.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_BITS = 0xFFFFFFFF
_SHIFT = 24


def murmur2(data: bytes) -> int:
    """Return the murmur2 hash of `data` as an unsigned 32-bit number."""
    found = (_SEED ^ len(data)) & _BITS
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _BITS
        word = (word ^ word >> _SHIFT) * _FACTOR & _BITS
        found = found * _FACTOR & _BITS ^ word
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * _FACTOR & _BITS
    found = (found ^ found >> 13) * _FACTOR & _BITS
    return found ^ found >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition that the Java client's default partitioner chooses for this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions

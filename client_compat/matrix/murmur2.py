"""The hash by which the Java client picks a key's partition, so that clients can be compared with it and not only with one another.

Source: MurmurHash2 of 32 bits, seeded as `org.apache.kafka.common.utils.Utils.murmur2`; `BuiltInPartitioner` takes it modulo the count.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_BITS = 0xFFFFFFFF
_SHIFT = 24


def murmur2(data: bytes) -> int:
    """The hash as an unsigned number of 32 bits."""
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
    """Where the Java client's default partitioner puts a record of this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions

"""The murmur2 hash has the values that Apache Kafka's own tests expect."""

from __future__ import annotations

import pytest

from client_compat.matrix.murmur2 import murmur2, partition_of

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", list(KNOWN))
def test_a_key_has_javas_hash_and_partition(key: bytes) -> None:
    assert murmur2(key) == KNOWN[key] % 2**32
    assert partition_of(key, 7) == (KNOWN[key] & 0x7FFFFFFF) % 7

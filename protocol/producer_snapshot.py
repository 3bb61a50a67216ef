"""The layout of `<offset>.snapshot`, a partition's producers before that offset (Kafka: ProducerStateManager).

version i16 (1), CRC-32C u32 of all that follows, count i32, and `count` entries of ENTRY: producer id i64, epoch i16, last sequence i32,
last offset i64 (-1: no batch), offset delta i32, timestamp i64, coordinator epoch i32, first offset of the open transaction i64 (-1: none).
"""

from __future__ import annotations

import struct
from typing import Final

from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.crc32c import crc32c

VERSION: Final = 1
HEAD: Final = struct.Struct(">hI")
COUNT: Final = struct.Struct(">i")
ENTRY: Final = struct.Struct(">qhiqiqiq")


def entries_of(data: bytes) -> memoryview:
    """The bytes of all entries, checked as a whole. Raises `ProtocolError` on anything that is not a snapshot of this version."""
    if len(data) < HEAD.size + COUNT.size:
        raise ProtocolError(f"{len(data)} bytes is less than a header")
    version, crc = HEAD.unpack_from(data)
    if version != VERSION:
        raise ProtocolError(f"version {version}")
    body = memoryview(data)[HEAD.size :]
    if crc32c(body) != crc:
        raise ProtocolError("the checksum does not match")
    (count,) = COUNT.unpack_from(body)
    entries = body[COUNT.size :]
    if count * ENTRY.size != len(entries):
        raise ProtocolError(f"{count} entries in {len(entries)} bytes")
    return entries

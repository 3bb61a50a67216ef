"""The format of `<offset>.snapshot`, the producer state of a partition before that offset (Kafka: ProducerStateManager).

int16 version (1), uint32 CRC-32C of everything after it, int32 count, and `count` entries of ENTRY: int64 producer id, int16 epoch, int32
last sequence, int64 last offset (-1: no batch), int32 offset delta, int64 timestamp, int32 coordinator epoch, int64 first offset of the
open transaction (-1: none).
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
    """Return the bytes of all producer entries in `data`, the content of a `.snapshot` file. Raises ProtocolError if the CRC is wrong, the
    data is damaged, or its version is not 1."""
    if len(data) < HEAD.size + COUNT.size:
        raise ProtocolError(f"{len(data)} bytes are less than a header")
    version, crc = HEAD.unpack_from(data)
    if version != VERSION:
        raise ProtocolError(f"unknown version {version}")
    body = memoryview(data)[HEAD.size :]
    if crc32c(body) != crc:
        raise ProtocolError("the checksum does not match")
    (count,) = COUNT.unpack_from(body)
    entries = body[COUNT.size :]
    if count * ENTRY.size != len(entries):
        raise ProtocolError(f"{count} entries in {len(entries)} bytes")
    return entries

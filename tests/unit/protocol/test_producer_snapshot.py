from __future__ import annotations

import struct

import pytest

from ottla.protocol.errors import ProtocolError
from ottla.protocol.producer_snapshot import ENTRY, entries_of
from ottla.protocol.records.crc32c import crc32c

ROW = ENTRY.pack(2**40, 3, 4, 5, 6, 7, 8, -1)


def snapshot(body: bytes, version: int = 1) -> bytes:
    return struct.pack(">hI", version, crc32c(body)) + body


def test_snapshot_entries_are_returned_unchanged() -> None:
    assert bytes(entries_of(snapshot(struct.pack(">i", 2) + ROW + ROW))) == ROW + ROW
    assert len(entries_of(snapshot(struct.pack(">i", 0)))) == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0\1", "less than a header"),
        (snapshot(struct.pack(">i", 1) + ROW, version=2), "version 2"),
        (snapshot(struct.pack(">i", 1) + ROW)[:-1] + b"\0", "checksum"),
        (snapshot(struct.pack(">i", 2) + ROW), "2 entries in 46 bytes"),
        (snapshot(struct.pack(">i", -1)), "-1 entries"),
    ],
)
def test_invalid_snapshot_is_rejected_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        entries_of(data)

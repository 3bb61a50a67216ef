"""Batches whose compressed bytes are many blocks without content."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.protocol.records.batch import HEADER_BYTES, pack_header, read_header
from ottla.protocol.records.compression import Codec, compress
from ottla.protocol.records.record import SimpleRecord, build_batch

_XERIAL_HEADER_BYTES = 16


def in_many_blocks(records: Sequence[SimpleRecord], empty_blocks: int) -> bytes:
    """Return a snappy batch of these records, whose blocks follow so many empty ones of five bytes each. Kafka reads it like any other."""
    plain = build_batch(records)
    frame = compress(Codec.SNAPPY, plain[HEADER_BYTES:])
    section = frame[:_XERIAL_HEADER_BYTES] + b"\0\0\0\1\0" * empty_blocks + frame[_XERIAL_HEADER_BYTES:]
    return pack_header(read_header(plain)._replace(attributes=Codec.SNAPPY), section) + section

"""Record batches as an attacker, a broken client or a failing disk could send them.

A valid batch is damaged in one way. After damage behind the CRC field, the CRC is mostly computed anew, because otherwise the broker's CRC
check would hide its other checks.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import cache

from ottla.protocol.records.compression import Codec, compress
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.record import SimpleRecord, build_batch

HEADER_BYTES = 61
CRC_AT, CRC_FROM = 17, 21
ATTRIBUTES_AT, COUNT_AT, LAST_DELTA_AT, LENGTH_AT, MAGIC_AT = 21, 57, 23, 8, 16
PRODUCER_AT = 43
HOSTILE_COUNTS = (-1, 0, 2, 1_000, 2**31 - 1, -(2**31))
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
# Unpacked sizes. The packed size is just below the default message.max.bytes (snappy, lz4) or far below (gzip, zstd).
BOMB_MIB = {Codec.GZIP: 512, Codec.SNAPPY: 16, Codec.LZ4: 200, Codec.ZSTD: 512}
MEBIBYTE = 1024 * 1024
KEEP_OLD_CRC_SHARE = 0.1
PLAIN_SHARE = 0.7


def any_records(rng: random.Random) -> bytes:
    """Return random content for the `records` field of a Produce request: a valid batch, a damaged one, several batches, or random
    bytes."""
    roll = rng.random()
    if roll < 0.2:
        return good_batch(rng)
    if roll < 0.25:
        return good_batch(rng) * rng.randint(2, 4)
    if roll < 0.3:
        return rng.randbytes(rng.randint(0, 300))
    if roll < 0.305:
        return bomb(rng.choice(CODECS[1:]))
    return damaged_batch(rng)


def good_batch(rng: random.Random) -> bytes:
    records = [SimpleRecord(rng.randbytes(3), rng.randbytes(rng.randint(0, 50)), 1_700_000_000_000 + n) for n in range(rng.randint(1, 5))]
    if rng.random() < PLAIN_SHARE:
        return build_batch(records, codec=rng.choice(CODECS))
    producer_id, sequence = rng.randint(0, 50), rng.randint(0, 9)
    return build_batch(records, codec=rng.choice(CODECS), producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def damaged_batch(rng: random.Random) -> bytes:
    """Return a batch that is damaged in one of the ways in `DAMAGES`, mostly with a CRC that matches the damaged content."""
    batch = bytearray(good_batch(rng))
    rng.choice(DAMAGES)(batch, rng)
    if len(batch) >= HEADER_BYTES and rng.random() > KEEP_OLD_CRC_SHARE:
        with_crc(batch)
    return bytes(batch)


def with_crc(batch: bytearray) -> None:
    struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))


@cache
def bomb(codec: Codec) -> bytes:
    """Return a batch within the size limit that unpacks to `BOMB_MIB` of zeros."""
    batch = bytearray(build_batch([SimpleRecord(None, b"")])[:HEADER_BYTES])
    batch += compress(codec, bytes(BOMB_MIB[codec] * MEBIBYTE))
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - 12)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, int(codec))
    with_crc(batch)
    return bytes(batch)


@cache
def renumbered(records: int) -> bytes:
    """Return a batch of minimal records that all have the offset delta 0, so that a broker has to rewrite their offsets."""
    smallest = b"\x0c\x00\x00\x00\x01\x01\x00"
    batch = bytearray(build_batch([SimpleRecord(None, b"")])[:HEADER_BYTES])
    batch += compress(Codec.ZSTD, smallest * records)
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - 12)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, int(Codec.ZSTD))
    struct.pack_into(">i", batch, LAST_DELTA_AT, records - 1)
    struct.pack_into(">i", batch, COUNT_AT, records)
    with_crc(batch)
    return bytes(batch)


def _bad_crc(batch: bytearray, rng: random.Random) -> None:
    batch[rng.randrange(CRC_FROM, len(batch))] ^= 1 << rng.randrange(8)


def _bad_count(batch: bytearray, rng: random.Random) -> None:
    struct.pack_into(">i", batch, COUNT_AT, rng.choice(HOSTILE_COUNTS))


def _bad_last_delta(batch: bytearray, rng: random.Random) -> None:
    struct.pack_into(">i", batch, LAST_DELTA_AT, rng.choice(HOSTILE_COUNTS))


def _bad_length(batch: bytearray, rng: random.Random) -> None:
    struct.pack_into(">i", batch, LENGTH_AT, rng.choice((*HOSTILE_COUNTS, 48, 49, len(batch))))


def _bad_magic(batch: bytearray, rng: random.Random) -> None:
    batch[MAGIC_AT] = rng.choice((0, 1, 3, 255))


def _bad_attributes(batch: bytearray, rng: random.Random) -> None:
    struct.pack_into(">H", batch, ATTRIBUTES_AT, rng.choice((1, 2, 3, 4, 5, 6, 7, 0x10, 0x20, 0x30, 0x40, 0xFF80, rng.randrange(0x10000))))


def _bad_producer(batch: bytearray, rng: random.Random) -> None:
    extremes = (-1, 0, 2**31 - 1, -(2**31))
    struct.pack_into(">qhi", batch, PRODUCER_AT, rng.choice((-2, -1, 0, 2**63 - 1)), rng.choice((-1, 0, 32767)), rng.choice(extremes))


def _bad_varint(batch: bytearray, rng: random.Random) -> None:
    """Write an invalid record length, or a varint without an end."""
    at = rng.randrange(HEADER_BYTES, len(batch))
    batch[at : at + 5] = rng.choice((b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x0f", b"\xff" * 10, b"\x80" * 5, b"\x01"))


def _truncated(batch: bytearray, rng: random.Random) -> None:
    del batch[rng.randrange(1, len(batch)) :]


def _noise_after_header(batch: bytearray, rng: random.Random) -> None:
    batch[HEADER_BYTES:] = rng.randbytes(rng.randint(0, 200))
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - 12)


DAMAGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _bad_crc,
    _bad_count,
    _bad_last_delta,
    _bad_length,
    _bad_magic,
    _bad_attributes,
    _bad_producer,
    _bad_varint,
    _truncated,
    _noise_after_header,
)

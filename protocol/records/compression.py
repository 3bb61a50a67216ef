"""The five compression codecs of a records section, with the framing of Kafka's Java client.

Rules that hold here:
- No function produces more than `max_bytes`, whatever the input claims. A claimed size is compared with that limit, and with the most that
  the codec could produce from the input, before memory is allocated.
- The blocks of a snappy or lz4 section are counted before they are decompressed, because tiny ones take time without producing bytes.
- Every error of a library becomes `CorruptBatch`.
- The libraries are imported on first use: most processes use one codec or none, and importing all three takes 15 ms.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from ottla.protocol.records.errors import BatchTooLarge, CorruptBatch, UnknownCodec
from ottla.protocol.wire import Buffer

if TYPE_CHECKING:
    import zstandard


class Codec(IntEnum):
    """The compression codec of a batch: bits 0 to 2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


LEVEL_DEFAULT: Final = {Codec.NONE: 0, Codec.GZIP: -1, Codec.SNAPPY: 0, Codec.LZ4: 9, Codec.ZSTD: 3}
"""Kafka's defaults of compression.<codec>.level; codecs without levels ignore them."""

_CODECS = tuple(Codec)

_GZIP_MEMBERS: Final = 100
"""The maximum number of members of a gzip stream that is decompressed; compressors make one. A megabyte of empty members, of 20 bytes each,
would take a second."""

BLOCK_BYTES_MIN: Final = 256
"""A snappy or lz4 section may have a block for each so many bytes that it may decompress to, at least BLOCKS_MIN; compressors fill their
blocks with 32 KiB or more. A megabyte can be 200,000 blocks that hold a byte or nothing, and each takes 1 us."""
BLOCKS_MIN: Final = 4096

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_SNAPPY_RATIO: Final = 64 / 3
"""The highest compression ratio of raw snappy: an element of three bytes copies 64 bytes."""

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_BYTES: Final = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_LZ4_FAST: Final = 0

_ZSTD_FIRST_RATIO: Final = 8
"""The compression ratio that is assumed first for a frame without a content size. If the result does not fit, each further attempt
allocates eight times more."""


def codec_of(codec_id: int) -> Codec:
    """Return the codec for the low three attribute bits. Raises `UnknownCodec` for 5 to 7."""
    if codec_id >= len(_CODECS):
        raise UnknownCodec(f"unknown compression codec {codec_id}")
    return _CODECS[codec_id]


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress a records section as Kafka's Java client does; NONE returns it unchanged. `level` is Kafka's compression.<codec>.level
    (None: its default)."""
    chosen = LEVEL_DEFAULT[codec] if level is None else level
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        squeeze = zlib.compressobj(chosen, zlib.DEFLATED, 31)
        return squeeze.compress(data) + squeeze.flush()
    if codec is Codec.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec is Codec.LZ4:
        import lz4.frame  # noqa: PLC0415 # on first use, see the module's docstring

        # In Kafka the default level selects lz4's fast mode; every other level selects its high-compression mode.
        native = _LZ4_FAST if chosen == LEVEL_DEFAULT[codec] else chosen
        return bytes(lz4.frame.compress(data, native, lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False))
    import zstandard  # noqa: PLC0415 # on first use, see the module's docstring

    return zstandard.ZstdCompressor(level=chosen).compress(data)


def decompress(codec: Codec, data: Buffer, max_bytes: int) -> Buffer:
    """Return a batch's decompressed records section (`data` itself if the codec is NONE).

    Raises `BatchTooLarge` if the decompressed section exceeds `max_bytes` or is in too many blocks for it (BLOCK_BYTES_MIN), `CorruptBatch`
    if `data` is damaged or truncated.
    """
    if codec is Codec.NONE:
        if len(data) > max_bytes:
            raise _too_large(codec, max_bytes)
        return data
    if codec is Codec.GZIP:
        return _decompress_gzip(data, max_bytes)
    if codec is Codec.SNAPPY:
        return _decompress_snappy(memoryview(data), max_bytes)
    if codec is Codec.LZ4:
        return _decompress_lz4(memoryview(data), max_bytes)
    return _decompress_zstd(data, max_bytes)


def _too_large(codec: Codec, max_bytes: int) -> BatchTooLarge:
    return BatchTooLarge(f"{codec.name.lower()}: the records decompress to more than {max_bytes} bytes")


def _blocks_max(max_bytes: int) -> int:
    return max(BLOCKS_MIN, max_bytes // BLOCK_BYTES_MIN)


def _too_many_blocks(codec: Codec, blocks_max: int) -> BatchTooLarge:
    return BatchTooLarge(f"{codec.name.lower()}: the records are in more than {blocks_max} blocks")


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    rest: Buffer = data
    while rest or not parts:
        # Read every member of the stream, as java.util.zip does. Each copies the rest of the stream, so their number is limited.
        if len(parts) == _GZIP_MEMBERS:
            raise CorruptBatch(f"gzip: the stream has more than {_GZIP_MEMBERS} members")
        member = zlib.decompressobj(31)
        try:
            parts.append(member.decompress(rest, left + 1))
        except zlib.error as e:
            raise CorruptBatch(f"gzip: {e}") from e
        left -= len(parts[-1])
        if left < 0:
            raise _too_large(Codec.GZIP, max_bytes)
        if not member.eof:
            raise CorruptBatch("gzip: the stream is truncated")
        rest = member.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _compress_xerial(data: memoryview) -> bytes:
    import cramjam  # noqa: PLC0415 # on first use, see the module's docstring

    framed = bytearray(_XERIAL_HEADER)
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        framed += len(block).to_bytes(4, "big")
        framed += block
    return bytes(framed)


def _decompress_snappy(data: memoryview, max_bytes: int) -> Buffer:
    import cramjam  # noqa: PLC0415 # on first use, see the module's docstring

    blocks_max = _blocks_max(max_bytes)
    total = count = 0
    try:
        # Two passes, because a list of the blocks takes 35 times the memory of a section of empty blocks.
        for block in _snappy_blocks(data):
            size = cramjam.snappy.decompress_raw_len(block)
            total += size
            count += 1
            if total > max_bytes:
                raise _too_large(Codec.SNAPPY, max_bytes)
            if count > blocks_max:
                raise _too_many_blocks(Codec.SNAPPY, blocks_max)
            if size > len(block) * _SNAPPY_RATIO:
                raise CorruptBatch("snappy: a block claims more bytes than it can hold")
        out = bytearray(total)
        view = memoryview(out)
        pos = 0
        for block in _snappy_blocks(data):
            pos += cramjam.snappy.decompress_raw_into(block, view[pos:])
    except cramjam.DecompressionError as e:
        raise CorruptBatch(f"snappy: {e}") from e
    if pos != total:
        raise CorruptBatch("snappy: a block holds fewer bytes than it claims")
    return out


def _snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    """Yield the blocks of a section in the xerial frame. A section without it is one block: librdkafka and franz-go write no frame."""
    if data[:8].tobytes() != _XERIAL_MAGIC:
        yield data
        return
    pos = len(_XERIAL_HEADER)
    if len(data) < pos:
        raise CorruptBatch("snappy: the xerial header is truncated")
    while pos < len(data):
        start = pos + 4
        pos = start + int.from_bytes(data[pos:start], "big")
        if pos > len(data) or start >= pos:
            raise CorruptBatch(f"snappy: the xerial block at byte {start} is truncated")
        yield data[start:pos]


def _decompress_lz4(data: memoryview, max_bytes: int) -> bytes:
    import lz4.frame  # noqa: PLC0415 # on first use, see the module's docstring

    end, content_bytes_max = _walk_lz4_frame(data, _blocks_max(max_bytes))
    unpack = lz4.frame.LZ4FrameDecompressor()
    try:
        # Data up to the end mark is passed: as in Kafka, a content checksum after it is not read; the batch's CRC covers the bytes.
        out: bytes = unpack.decompress(data[:end], max_length=min(max_bytes, content_bytes_max) + 1)
    except (RuntimeError, EOFError) as e:
        raise CorruptBatch(f"lz4: {e}") from e
    if len(out) > max_bytes:
        raise _too_large(Codec.LZ4, max_bytes)
    return out


def _walk_lz4_frame(data: memoryview, blocks_max: int) -> tuple[int, int]:
    """Check the structure of an LZ4 frame. Return (the position after the end mark, the maximum number of bytes to which its blocks can
    decompress). Raises `BatchTooLarge` for more than `blocks_max` blocks, `CorruptBatch` if the structure is invalid or not supported."""
    if len(data) < 7 or data[:4].tobytes() != _LZ4_MAGIC:
        raise CorruptBatch("lz4: not a frame")
    flags, descriptor = data[4], data[5]
    block_bytes = _LZ4_BLOCK_BYTES.get(descriptor >> 4 & 7)
    if flags >> 6 != 1 or block_bytes is None:
        raise CorruptBatch(f"lz4: unsupported frame descriptor {flags:#04x} {descriptor:#04x}")
    if not flags & 0x20:
        raise CorruptBatch("lz4: the frame's blocks depend on each other")
    block_checksum = 4 if flags & 0x10 else 0
    content_checksum = 4 if flags & 0x04 else 0
    pos = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    content_bytes_max = 0
    while pos + 4 <= len(data):
        size = int.from_bytes(data[pos : pos + 4], "little") & 0x7FFFFFFF
        pos += 4
        if size == 0:
            if pos + content_checksum != len(data):
                raise CorruptBatch("lz4: the frame does not end where its section ends")
            return pos, content_bytes_max
        content_bytes_max += block_bytes
        if content_bytes_max > blocks_max * block_bytes:
            raise _too_many_blocks(Codec.LZ4, blocks_max)
        pos += size + block_checksum
    raise CorruptBatch("lz4: the frame is truncated")


def _decompress_zstd(data: Buffer, max_bytes: int) -> bytes:
    import zstandard  # noqa: PLC0415 # on first use, see the module's docstring

    try:
        size = zstandard.frame_content_size(data)
        if size > max_bytes:
            raise _too_large(Codec.ZSTD, max_bytes)
        unpack = _zstd_decompressor()
        if size >= 0:
            return unpack.decompress(data, max_output_size=size)
        output_size = min(max_bytes, max(64 << 10, _ZSTD_FIRST_RATIO * len(data)))
        while True:
            try:
                return unpack.decompress(data, max_output_size=output_size)
            except zstandard.ZstdError:
                # The error does not tell whether the frame is damaged or needs more room, so retry up to the limit.
                if output_size == max_bytes:
                    raise
            output_size = min(max_bytes, output_size * _ZSTD_FIRST_RATIO)
    except zstandard.ZstdError as e:
        if _zstd_exceeds(data, max_bytes):
            raise _too_large(Codec.ZSTD, max_bytes) from e
        raise CorruptBatch(f"zstd: {e}") from e


def _zstd_decompressor() -> zstandard.ZstdDecompressor:
    """Return this thread's decompressor. It is reused, because creating a decompressor takes longer than decompressing a small batch, and
    threads must not share one."""
    import zstandard  # noqa: PLC0415 # on first use, see the module's docstring

    found: zstandard.ZstdDecompressor | None = getattr(_OF_THREAD, "zstd", None)
    if found is None:
        found = _OF_THREAD.zstd = zstandard.ZstdDecompressor()
    return found


_OF_THREAD: Final = threading.local()


def _zstd_exceeds(data: Buffer, max_bytes: int) -> bool:
    """Return True if a zstd frame that failed to decompress into `max_bytes` is too large, False if it is damaged. Decompresses it piece by
    piece, with one piece in memory at a time."""
    import zstandard  # noqa: PLC0415 # on first use, see the module's docstring

    total = 0
    try:
        for chunk in zstandard.ZstdDecompressor().read_to_iter(data, write_size=128 << 10):
            total += len(chunk)
            if total > max_bytes:
                return True
    except zstandard.ZstdError:
        return False
    return False

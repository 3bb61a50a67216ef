"""The five compression codecs: Kafka's framing in both directions, and malicious input in limited memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard

from ottla.protocol.records.compression import BLOCKS_MIN, Codec, compress, decompress
from ottla.protocol.records.errors import BatchTooLarge, CorruptBatch

COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
DATA = b"".join(b"record %d of many; " % (i * 7919 % 1000) for i in range(9000))
XERIAL = bytes.fromhex("82534e41505059000000000100000001")
MIB = 1 << 20


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def streamed_zstd(data: bytes) -> bytes:
    """Return a zstd frame without its content size, as streaming compressors write it."""
    squeeze = zstandard.ZstdCompressor().compressobj()
    return squeeze.compress(data) + squeeze.flush()


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"x", DATA], ids=["empty", "one byte", "many blocks"])
def test_compression_round_trips_with_every_codec(codec: Codec, data: bytes) -> None:
    squeezed = compress(codec, memoryview(data))
    assert bytes(decompress(codec, squeezed, len(data))) == data
    assert bytes(decompress(codec, memoryview(squeezed), len(data))) == data


@pytest.mark.parametrize(("codec", "levels"), [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-7, 3, 22))])
def test_all_of_kafkas_levels_are_taken(codec: Codec, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert bytes(decompress(codec, compress(codec, DATA, level), len(DATA))) == DATA


def test_a_higher_level_makes_less_of_it() -> None:
    assert len(compress(Codec.LZ4, DATA, 17)) < len(compress(Codec.LZ4, DATA))
    assert len(compress(Codec.GZIP, DATA, 9)) < len(compress(Codec.GZIP, DATA, 1))
    assert len(compress(Codec.ZSTD, DATA, 19)) < len(compress(Codec.ZSTD, DATA, -50))


def test_snappy_is_framed_like_javas_in_blocks_of_32_kib() -> None:
    squeezed = compress(Codec.SNAPPY, DATA)
    assert squeezed[:16] == XERIAL
    first = int.from_bytes(squeezed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(squeezed[20 : 20 + first])) == DATA[: 32 << 10]


def test_lz4_frames_have_independent_64_kib_blocks_and_no_checksums_or_size() -> None:
    assert compress(Codec.LZ4, DATA)[:6] == bytes.fromhex("04224d186040")


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Codec.GZIP, gzip.compress(DATA)),
        (Codec.GZIP, gzip.compress(DATA[:5000]) + gzip.compress(DATA[5000:])),
        (Codec.SNAPPY, raw_snappy(DATA)),
        (Codec.LZ4, lz4.frame.compress(DATA, block_linked=False, store_size=True)),
        (Codec.LZ4, lz4.frame.compress(DATA, block_linked=False, content_checksum=True, block_checksum=True)),
        (Codec.LZ4, lz4.frame.compress(DATA, block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False)),
        (Codec.ZSTD, streamed_zstd(DATA)),
        (Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(DATA)),
    ],
    ids=["gzip", "gzip members", "raw snappy", "lz4 size", "lz4 checksums", "lz4 4 MiB blocks", "zstd streamed", "zstd checksum"],
)
def test_other_framings_of_the_same_codec_are_read(codec: Codec, data: bytes) -> None:
    assert bytes(decompress(codec, data, len(DATA))) == DATA


def test_an_lz4_content_checksum_is_not_verified_as_in_kafka() -> None:
    frame = bytearray(lz4.frame.compress(DATA, block_linked=False, content_checksum=True))
    frame[-1] ^= 1
    assert decompress(Codec.LZ4, frame, len(DATA)) == DATA


def test_an_lz4_header_or_block_checksum_is_verified() -> None:
    frame = lz4.frame.compress(DATA, block_linked=False, store_size=False, block_checksum=True)
    for at in (6, -5):
        broken = bytearray(frame)
        broken[at] ^= 1
        with pytest.raises(CorruptBatch):
            decompress(Codec.LZ4, broken, len(DATA))


def test_bytes_behind_an_lz4_frame_are_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="does not end"):
        decompress(Codec.LZ4, compress(Codec.LZ4, DATA) + b"\0", len(DATA))


def test_lz4_blocks_that_depend_on_each_other_are_refused_as_in_kafka() -> None:
    with pytest.raises(CorruptBatch, match="depend"):
        decompress(Codec.LZ4, lz4.frame.compress(DATA, block_linked=True), len(DATA))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_truncated_section_is_corrupt_wherever_it_is_cut(codec: Codec) -> None:
    squeezed = compress(codec, DATA[:100_000])
    for cut in (1, 2, 5, len(squeezed) // 2, len(squeezed) - 20, len(squeezed) - 1, len(squeezed)):
        with pytest.raises(CorruptBatch):
            decompress(codec, squeezed[: len(squeezed) - cut], MIB)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_random_bytes_are_corrupt(codec: Codec) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, bytes(range(251, 0, -3)) * 4, MIB)


@pytest.mark.parametrize(
    "data",
    [XERIAL[:15], XERIAL + b"\0\0", XERIAL + b"\0\0\0\0", XERIAL + b"\xff\xff\xff\xffabc", XERIAL + b"\0\0\0\x09abc"],
    ids=["header cut", "length cut", "empty block", "negative length", "block cut"],
)
def test_a_bad_xerial_frame_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(Codec.SNAPPY, data, MIB)


def test_a_snappy_block_cannot_claim_more_than_its_bytes_can_hold() -> None:
    claims_32_mib = b"\x80\x80\x80\x10" + bytes(60)
    with pytest.raises(CorruptBatch, match="claims"):
        decompress(Codec.SNAPPY, claims_32_mib, 64 * MIB)


@pytest.mark.parametrize("codec", list(Codec))
def test_the_bound_is_exact(codec: Codec) -> None:
    squeezed = compress(codec, DATA)
    assert len(decompress(codec, squeezed, len(DATA))) == len(DATA)
    with pytest.raises(BatchTooLarge, match=str(len(DATA) - 1)):
        decompress(codec, squeezed, len(DATA) - 1)


def test_the_bound_holds_for_zstd_frames_that_do_not_say_their_size_or_lie_about_it() -> None:
    with pytest.raises(BatchTooLarge):
        decompress(Codec.ZSTD, streamed_zstd(DATA), len(DATA) - 1)
    honest = bytearray(zstandard.ZstdCompressor().compress(DATA))
    size = len(DATA).to_bytes(4, "little")
    at = honest.index(size)
    honest[at : at + 4] = (len(DATA) - 1).to_bytes(4, "little")
    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, honest, len(DATA))


_BOMB = """
import resource, sys, zlib
from ottla.protocol.records.compression import Codec, compress, decompress
from ottla.protocol.records.errors import BatchTooLarge
import zstandard
codec, form = Codec(int(sys.argv[1])), sys.argv[2]
MIB = 1 << 20
if form == "streamed" or codec is Codec.GZIP:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31) if codec is Codec.GZIP else zstandard.ZstdCompressor().compressobj()
    bomb = b"".join(squeeze.compress(bytes(MIB)) for _ in range(256)) + squeeze.flush()
else:
    bomb = compress(codec, bytes(256 * MIB))
limit = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 100 * MIB
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for _ in range(20):
    try:
        decompress(codec, bomb, 8 * MIB)
    except BatchTooLarge:
        continue
    sys.exit("the bomb went off")
print("safe")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space of a process, which only Linux does reliably")
@pytest.mark.parametrize(("codec", "form"), [(c, "plain") for c in COMPRESSED] + [(Codec.ZSTD, "streamed")], ids=str)
def test_a_bomb_of_256_mib_is_refused_within_bounded_memory(codec: Codec, form: str) -> None:
    """The process that decompresses it may not even reserve as much memory as the content would need."""
    done = subprocess.run([sys.executable, "-c", _BOMB, str(int(codec)), form], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("safe\n", 0), done.stderr[-2000:]


def test_a_gzip_stream_of_very_many_members_is_refused_before_they_are_read() -> None:
    some = gzip.compress(b"x") * 100
    assert bytes(decompress(Codec.GZIP, some, 1_000)) == b"x" * 100
    with pytest.raises(CorruptBatch, match="more than 100 members"):
        decompress(Codec.GZIP, some + gzip.compress(b""), 1_000)


EMPTY_BLOCK = (1).to_bytes(4, "big") + raw_snappy(b"")
TINY_BLOCKS = {
    "empty snappy": (Codec.SNAPPY, XERIAL, EMPTY_BLOCK, b"", b""),
    "snappy": (Codec.SNAPPY, XERIAL, len(raw_snappy(b"x")).to_bytes(4, "big") + raw_snappy(b"x"), b"x", b""),
    "lz4": (Codec.LZ4, compress(Codec.LZ4, b"")[:7], (1 << 31 | 1).to_bytes(4, "little") + b"x", b"x", bytes(4)),
}


@pytest.mark.parametrize("form", TINY_BLOCKS.values(), ids=TINY_BLOCKS.keys())
def test_the_number_of_blocks_is_limited_by_the_bytes_that_they_may_decompress_to(form: tuple[Codec, bytes, bytes, bytes, bytes]) -> None:
    codec, head, block, content, tail = form
    most = head + block * BLOCKS_MIN + tail
    assert bytes(decompress(codec, most, BLOCKS_MIN)) == content * BLOCKS_MIN
    more = head + block * (BLOCKS_MIN + 1) + tail
    for max_bytes in (BLOCKS_MIN + 1, MIB):
        with pytest.raises(BatchTooLarge, match="more than 4096 blocks"):
            decompress(codec, more, max_bytes)
    assert bytes(decompress(codec, more, 2 * MIB)) == content * (BLOCKS_MIN + 1)


def test_tiny_snappy_blocks_take_less_memory_than_the_section() -> None:
    section = XERIAL + EMPTY_BLOCK * 200_000
    decompress(Codec.SNAPPY, XERIAL, MIB)  # imports the library
    tracemalloc.start()
    try:
        assert len(decompress(Codec.SNAPPY, section, 64 * MIB)) == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < len(section)

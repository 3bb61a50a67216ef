"""The walker of batch headers; each test runs on the compiled and the interpreted form."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.records.batch import HEADER_BYTES, read_header, split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.walkers import BATCH_WALKERS, INTERPRETED_BATCHES, compiler, is_compiled

FAR = 1 << 30
BATCHES = [
    build_batch([SimpleRecord(None, b"v", 5), SimpleRecord(b"k", None, 7)], base_offset=2**40, leader_epoch=3, codec=Codec.GZIP),
    build_batch([SimpleRecord(None, b"w")], base_offset=2**40 + 2, producer_id=2**62, producer_epoch=32767, base_sequence=2**31 - 1),
    build_batch([SimpleRecord(None, b"x" * 300, 2**50)], producer_id=0, producer_epoch=0, base_sequence=0, transactional=True),
]
LEGACY = (9).to_bytes(8, "big") + (14).to_bytes(4, "big") + b"\x01\x02\x03\x04\x00" + bytes(9)
DATA = b"".join(BATCHES)


@pytest.fixture(params=list(BATCH_WALKERS))
def walk(request: pytest.FixtureRequest) -> ModuleType:
    return BATCH_WALKERS[request.param]


def test_installed_walker_is_compiled_if_there_is_a_compiler() -> None:
    assert compiler() is None or is_compiled(BATCH_WALKERS["installed"]), "not compiled: run 'python setup.py build_ext --inplace'"
    assert not is_compiled(INTERPRETED_BATCHES)


def test_walked_headers_equal_those_of_split_batches(walk: ModuleType) -> None:
    data = DATA + LEGACY + BATCHES[0]
    found = walk.walk_headers(data, 0, len(data), 100, FAR, True)
    assert list(zip(*found[:14], strict=True)) == [(at, *header) for at, header in split_batches(data)]
    assert (found.next_position, found.stop, found.next_length) == (len(data), walk.MORE, -1)


def test_walk_continues_where_the_last_one_ended(walk: ModuleType) -> None:
    first = walk.walk_headers(DATA, 0, len(DATA), 2, FAR, True)
    second = walk.walk_headers(DATA, first.next_position, len(DATA), 2, FAR, True)
    assert (len(first.positions), first.stop, len(second.positions), second.stop) == (2, walk.MORE, 1, walk.MORE)
    assert [*first.base_offsets, *second.base_offsets] == [2**40, 2**40 + 2, 0]


@pytest.mark.parametrize("end", range(len(BATCHES[0])))
def test_partial_batch_is_left_for_later_or_cut_at_the_end(walk: ModuleType, end: int) -> None:
    data = BATCHES[1] + BATCHES[0][:end]
    start = len(BATCHES[1])
    later = walk.walk_headers(data, 0, FAR, 100, FAR, True)
    assert (len(later.positions), later.next_position, later.stop) == (1, start, walk.MORE)
    cut = walk.walk_headers(data, 0, len(data), 100, FAR, True)
    assert (len(cut.positions), cut.next_position, cut.stop) == (1, start, walk.CUT if end else walk.MORE)


def test_walk_of_headers_only_needs_only_their_bytes(walk: ModuleType) -> None:
    data = DATA[: len(BATCHES[0]) + HEADER_BYTES]
    found = walk.walk_headers(data, 0, len(DATA), 100, FAR, False)
    assert (list(found.base_offsets), found.next_position, found.stop) == ([2**40, 2**40 + 2], len(BATCHES[0] + BATCHES[1]), walk.MORE)
    assert len(walk.walk_headers(data[:-1], 0, len(DATA), 100, FAR, False).positions) == 1


@pytest.mark.parametrize(
    ("position", "value", "verdict"),
    [(8, b"\xff\xff\xff\xff", "BAD_LENGTH"), (8, b"\0\0\0\x0d", "BAD_LENGTH"), (8, b"\0\0\0\x30", "BAD_LENGTH"), (16, b"\x03", "BAD_MAGIC"),
     (8, b"\x40\0\0\0", "CUT")],
)  # fmt: skip
def test_bytes_that_are_no_batch_end_the_walk_with_the_reason(walk: ModuleType, position: int, value: bytes, verdict: str) -> None:
    start = len(BATCHES[0])
    at = start + position
    found = walk.walk_headers(DATA[:at] + value + DATA[at + len(value) :], 0, len(DATA), 100, 2**31, True)
    assert (len(found.positions), found.next_position, found.stop) == (1, start, getattr(walk, verdict))


def test_a_batch_above_the_largest_length_ends_the_walk(walk: ModuleType) -> None:
    found = walk.walk_headers(DATA, 0, len(DATA), 100, 200, True)
    assert (len(found.positions), found.stop, found.next_length) == (2, walk.TOO_LARGE, read_header(BATCHES[2]).batch_length)


@given(st.binary(max_size=300), st.integers(0, 300), st.booleans())
def test_compiled_and_interpreted_walkers_agree_on_any_bytes(noise: bytes, limit: int, whole: bool) -> None:
    data = BATCHES[1] + noise
    args = (data, 0, len(BATCHES[1]) + max(limit, len(noise)), 100, FAR, whole)
    assert BATCH_WALKERS["installed"].walk_headers(*args) == INTERPRETED_BATCHES.walk_headers(*args)

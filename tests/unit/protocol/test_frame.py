from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import FrameTooLarge
from ottla.protocol.frame import FrameReader


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), max_size=200))
def test_frames_do_not_depend_on_how_the_stream_is_split(frames: list[bytes], sizes: list[int]) -> None:
    stream, reader, found = framed(*frames), FrameReader(40), []
    for size in [*sizes, len(stream) + 1]:
        chunk, stream = stream[:size], stream[size:]
        found += [bytes(frame) for frame in reader.feed(chunk)]
    assert found == frames


def test_stream_can_arrive_byte_by_byte() -> None:
    reader = FrameReader(10)
    found = [bytes(frame) for byte in framed(b"abc", b"", b"defghijklm") for frame in reader.feed(bytes([byte]))]
    assert found == [b"abc", b"", b"defghijklm"]


def test_a_limited_number_of_frames_is_split_and_the_rest_can_be_fed_again() -> None:
    reader = FrameReader(10)
    assert reader.feed(framed(b"a", b"", b"c", b"d") + b"\0", 2) == [b"a", b""]
    assert reader.unsplit == framed(b"c", b"d") + b"\0"
    rest, reader.unsplit = reader.unsplit, b""
    assert reader.feed(rest, 3) == [b"c", b"d"]
    assert (reader.unsplit, reader.held_bytes) == (b"", 1)


def test_complete_frame_is_not_copied() -> None:
    data = framed(b"abc", b"de")
    frames = FrameReader(10).feed(data)
    assert [frame.obj is data for frame in frames] == [True, True]


@pytest.mark.parametrize("size", [11, 2**31 - 1, -1])
@pytest.mark.parametrize("cut", [0, 2])
def test_frame_above_the_limit_is_rejected_together_with_the_frames_before_it(size: int, cut: int) -> None:
    reader = FrameReader(10)
    stream = framed(b"good") + size.to_bytes(4, "big", signed=True)
    kept = list(reader.feed(stream[:cut]))
    with pytest.raises(FrameTooLarge) as caught:
        reader.feed(stream[cut:])
    assert (kept, list(caught.value.frames), caught.value.size) == ([], [b"good"], size)


def test_frame_at_the_limit_is_accepted() -> None:
    assert FrameReader(10).feed(framed(b"0123456789")) == [b"0123456789"]


def test_memory_grows_with_the_received_bytes_and_not_with_the_announced_size() -> None:
    reader = FrameReader(100_000_000)
    tracemalloc.start()
    try:
        reader.feed((99_999_999).to_bytes(4, "big"))
        for _ in range(1000):
            reader.feed(b"x")
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.gateway.frame_stream import FrameDecision, FrameStream
from ottla.protocol.errors import FrameTooLarge

PASS, COLLECT = b"p", b"c"


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


class Taken:
    """A frame stream that reads each frame's decision from its second byte, so that the decision needs two bytes. Collected frames are
    sent on in capitals, which shows their place among those that pass."""

    def __init__(self, max_collected: int = 1_000) -> None:
        self.out: list[bytes | bytearray | memoryview] = []
        self.stream = FrameStream(self.decide, self.take, max_collected)

    def decide(self, buf: memoryview, start: int, end: int, size: int) -> FrameDecision:
        if end - start < 2:
            return FrameDecision.PASS if size < 2 else FrameDecision.MORE
        return FrameDecision.COLLECT if bytes(buf[start + 1 : start + 2]) == COLLECT else FrameDecision.PASS

    def take(self, frame: memoryview) -> None:
        self.out.append(framed(bytes(frame).upper()))

    def feed(self, data: bytes) -> None:
        self.stream.feed(data, self.out)


FRAMES = st.lists(
    st.one_of(
        st.just(b""), st.just(b"x"), st.builds(lambda kind, n: b"x" + kind + b"y" * n, st.sampled_from([PASS, COLLECT]), st.integers(0, 40))
    )
)


@given(FRAMES, st.lists(st.integers(1, 30), min_size=1))
def test_every_frame_keeps_its_place_however_the_bytes_arrive(frames: list[bytes], steps: list[int]) -> None:
    taken, data, at, turn = Taken(), b"".join(map(framed, frames)), 0, 0
    while at < len(data):
        taken.feed(data[at : at + steps[turn % len(steps)]])
        at += steps[turn % len(steps)]
        turn += 1
    assert b"".join(taken.out) == b"".join(framed(frame.upper() if frame[1:2] == COLLECT else frame) for frame in frames)
    assert taken.stream.held_bytes == 0
    assert not taken.stream.in_frame


def test_neighbouring_frames_that_pass_are_one_buffer_without_a_copy() -> None:
    taken, data = Taken(), framed(b"xpone") + framed(b"xptwo")
    taken.feed(data)
    (only,) = taken.out
    assert isinstance(only, memoryview)
    assert only.obj is data


def test_a_frame_that_passes_is_not_stored_however_large_it_is() -> None:
    taken = Taken()
    taken.feed(struct.pack(">i", 2**31 - 1) + b"xp" + b"y" * 10_000)
    assert taken.stream.held_bytes == 0
    assert taken.stream.in_frame


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_size_is_rejected(size: int) -> None:
    with pytest.raises(FrameTooLarge):
        Taken().feed(struct.pack(">i", size))


def test_a_frame_to_be_collected_is_rejected_before_it_is_stored_if_it_is_too_large() -> None:
    taken = Taken(max_collected=10)
    taken.feed(framed(b"xc" + b"y" * 8))
    with pytest.raises(FrameTooLarge):
        taken.feed(struct.pack(">i", 11) + b"xc")


def test_waiting_frame_is_decided_again_after_resume_and_no_later_frame_before_it() -> None:
    taken = Taken()
    waits = [True]

    def decide(buf: memoryview, start: int, end: int, size: int) -> FrameDecision:
        if waits[0] and end > start and buf[start] == ord("w"):
            return FrameDecision.WAIT
        return taken.decide(buf, start, end, size)

    taken.stream = FrameStream(decide, taken.take, 1_000)
    frames = framed(b"xp1") + framed(b"wc2") + framed(b"xp3")
    taken.feed(frames[:-2])
    taken.feed(frames[-2:])
    assert b"".join(taken.out) == framed(b"xp1")
    assert taken.stream.held_bytes == 2 * len(framed(b"xp1"))
    waits[0] = False
    taken.stream.resume(taken.out)
    assert b"".join(taken.out) == framed(b"xp1") + framed(b"WC2") + framed(b"xp3")
    assert taken.stream.held_bytes == 0

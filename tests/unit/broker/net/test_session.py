from __future__ import annotations

import asyncio
import gc
import struct
from collections.abc import Iterator

import pytest

from ottla.broker.api.reply import CLOSE, Buffer, FinalResponse, Reply
from ottla.broker.core import limits
from ottla.broker.net.session import ByteBudget, Session
from ottla.protocol.errors import MalformedHeader


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Scene:
    """A session whose handler returns the frame, unless the frame's first letter selects another behaviour."""

    def __init__(self, budget: ByteBudget | None = None, max_request_bytes: int = 1 << 20) -> None:
        self.handled: list[bytes] = []
        self.pending: list[asyncio.Future[Reply]] = []
        self.woken = 0
        self.budget = budget or ByteBudget()
        self.session = Session(self.handle, self.wake, self.budget, max_request_bytes)

    def handle(self, data: Buffer) -> Reply | asyncio.Future[Reply]:
        body = bytes(data)
        self.handled.append(body)
        match body[:1]:
            case b"w":
                future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
                self.pending.append(future)
                return future
            case b"0":
                return None
            case b"c":
                return CLOSE
            case b"!":
                raise MalformedHeader("bad")
            case b"B":
                return [b"x" * limits.WRITE_HIGH_BYTES]
        return [b"<", body, b">"]

    def wake(self) -> None:
        self.woken += 1

    def output(self) -> bytes:
        return b"".join(self.session.take_output())


@pytest.fixture
def scene() -> Iterator[Scene]:
    return Scene()


def test_requests_are_answered_equally_when_fed_byte_by_byte(scene: Scene) -> None:
    stream = frame(b"one") + frame(b"two") + frame(b"")
    whole = Scene()
    whole.session.receive(stream)
    for position in range(len(stream)):
        scene.session.receive(stream[position : position + 1])
    assert scene.handled == whole.handled == [b"one", b"two", b""]
    assert scene.output() == whole.output() == b"<one><two><>"


def test_a_turn_ends_after_a_time_slice() -> None:
    """The handler takes half a time slice for a request. Of ten requests a turn handles two, on the fast path as from the backlog."""
    now_ns, handled = [0], []

    def handle(data: Buffer) -> Reply:
        now_ns[0] += limits.SLICE_MS * 500_000
        handled.append(bytes(data))
        return [b"."]

    session = Session(handle, lambda: None, ByteBudget(), 1 << 20, spent_ns=lambda: now_ns[0])
    session.receive(frame(b"a") * 10)
    turns = 1
    while session.runnable:
        before = len(handled)
        session.run()
        assert len(handled) - before <= 2
        turns += 1
    assert (len(handled), turns) == (10, 5)
    assert b"".join(session.take_output()) == b"." * 10


async def test_no_request_is_handled_before_the_previous_reply(scene: Scene) -> None:
    scene.session.receive(frame(b"first") + frame(b"w") + frame(b"0") + frame(b"last"))
    assert scene.handled == [b"first", b"w"]
    assert scene.output() == b"<first>"
    scene.session.receive(frame(b"after"))
    assert scene.handled == [b"first", b"w"]
    assert not scene.session.runnable
    scene.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    assert scene.woken == 1
    assert scene.output() == b"W"
    assert scene.session.runnable
    scene.session.run()
    assert scene.handled == [b"first", b"w", b"0", b"last", b"after"]
    assert scene.output() == b"<last><after>"
    assert scene.budget.used == 0


async def test_a_pending_request_without_response_blocks_later_requests(scene: Scene) -> None:
    scene.session.receive(frame(b"0") + frame(b"a") + frame(b"w") + frame(b"b"))
    assert scene.output() == b"<a>"
    assert scene.session.waiting
    scene.pending[0].set_result(None)
    await asyncio.sleep(0)
    scene.session.run()
    assert scene.output() == b"<b>"
    assert not scene.session.waiting


async def test_a_bounded_amount_is_read_behind_a_pending_request(scene: Scene) -> None:
    scene.session.receive(frame(b"w") + frame(b"a"))
    assert not scene.session.paused, "a peer that hangs up is noticed by reading"
    scene.session.receive(frame(b"x" * limits.READ_CHUNK_BYTES)[:-1])
    assert scene.session.paused
    assert scene.budget.used == scene.session.unhandled == 5 + 4 + limits.READ_CHUNK_BYTES - 1
    scene.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    scene.session.run()
    assert not scene.session.paused
    assert scene.handled == [b"w", b"a"]


def test_a_close_reply_ends_the_session_after_earlier_replies(scene: Scene) -> None:
    scene.session.receive(frame(b"a") + frame(b"c") + frame(b"never"))
    assert scene.session.paused
    assert not scene.session.finished
    assert scene.output() == b"<a>"
    assert scene.session.finished
    scene.session.receive(frame(b"never"))
    assert scene.handled == [b"a", b"c"]


@pytest.mark.parametrize("reply", [CLOSE, FinalResponse([b"half"])])
async def test_a_pending_close_reply_ends_the_session_and_drops_later_requests(scene: Scene, reply: Reply) -> None:
    scene.session.receive(frame(b"w") + frame(b"never"))
    scene.pending[0].set_result(reply)
    await asyncio.sleep(0)
    assert scene.output() == (b"half" if isinstance(reply, list) else b"")
    assert scene.session.finished
    assert scene.handled == [b"w"]
    assert scene.budget.used == 0


def test_invalid_bytes_end_the_session_after_earlier_requests(scene: Scene) -> None:
    scene.session.receive(frame(b"ok") + frame(b"!") + frame(b"never"))
    assert scene.output() == b"<ok>"
    assert scene.session.finished
    assert scene.handled == [b"ok", b"!"]


def test_a_frame_above_the_limit_ends_the_session_before_its_bytes_arrive() -> None:
    scene = Scene(max_request_bytes=100)
    scene.session.receive(frame(b"ok") + struct.pack(">i", 101))
    assert scene.output() == b"<ok>"
    assert scene.session.finished


def test_a_negative_frame_size_ends_the_session(scene: Scene) -> None:
    scene.session.receive(struct.pack(">i", -1))
    assert scene.session.finished


async def test_invalid_bytes_end_the_session_only_after_the_pending_reply(scene: Scene) -> None:
    scene.session.receive(frame(b"w") + frame(b"a") + struct.pack(">i", -1))
    assert scene.session.paused
    scene.session.receive(frame(b"never"))
    scene.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    scene.session.run()
    assert scene.output() == b"W<a>"
    assert scene.session.finished


def test_a_long_pipeline_yields_to_other_connections(scene: Scene) -> None:
    scene.session.receive(frame(b"a") * (limits.REQUESTS_PER_TURN + 1))
    assert len(scene.handled) == limits.REQUESTS_PER_TURN
    assert scene.session.runnable
    assert scene.session.paused
    scene.session.run()
    assert len(scene.handled) == limits.REQUESTS_PER_TURN + 1
    assert not scene.session.paused


def test_all_requests_before_invalid_bytes_are_answered(scene: Scene) -> None:
    scene.session.receive(frame(b"a") * 1_000 + struct.pack(">i", -1))
    while scene.session.runnable:
        scene.session.run()
    assert len(scene.handled) == 1_000
    scene.output()
    assert scene.session.finished


def test_no_request_is_started_while_the_peer_does_not_read(scene: Scene) -> None:
    scene.session.write_blocked = True
    scene.session.receive(frame(b"a"))
    assert scene.handled == []
    assert scene.session.paused
    scene.session.write_blocked = False
    scene.session.run()
    assert scene.output() == b"<a>"
    assert not scene.session.paused


def test_large_responses_pause_the_session_until_they_are_written(scene: Scene) -> None:
    scene.session.receive(frame(b"B") + frame(b"B") + frame(b"a"))
    assert scene.handled == [b"B"]
    scene.output()
    scene.session.run()
    assert scene.handled == [b"B", b"B"]


def test_partly_read_frames_count_against_the_budget_until_they_are_handled() -> None:
    budget = ByteBudget(limit=50)
    scene = Scene(budget)
    other = Scene(budget)
    scene.session.receive(frame(b"x" * 100)[:60])
    assert budget.used == 60
    assert not scene.session.paused, "a frame that was begun may be read to its end"
    other.session.receive(frame(b"small"))
    assert other.handled == [b"small"], "what comes whole needs no memory"
    assert not other.session.paused
    other.session.receive(frame(b"y" * 100)[:10])
    assert (other.session.paused, other.session.waits_for_memory) == (True, True), "no other frame is read on"
    scene.session.receive(frame(b"x" * 100)[60:])
    assert budget.used == 10
    assert not other.session.paused
    other.session.receive(frame(b"y" * 100)[10:])
    assert (budget.used, other.handled[1:]) == (0, [b"y" * 100])


def test_a_frame_begun_before_the_shortage_is_read_to_its_end() -> None:
    budget = ByteBudget(limit=50)
    scene = Scene(budget)
    budget.used = 50
    scene.session.receive(frame(b"x" * 100)[:10])
    assert scene.session.waits_for_memory
    budget.used -= 50
    scene.session.receive(frame(b"x" * 100)[10:70])
    assert budget.used == 70
    assert not scene.session.paused


def test_a_frame_begun_behind_a_complete_one_waits_for_memory() -> None:
    budget = ByteBudget(limit=50)
    scene = Scene(budget)
    budget.used = 50
    scene.session.receive(frame(b"all of it") + b"\0")
    assert (scene.handled, scene.session.waits_for_memory) == ([b"all of it"], True)


def test_a_lost_connection_releases_its_memory() -> None:
    budget = ByteBudget()
    scene = Scene(budget)
    scene.session.receive(frame(b"x" * 100)[:60])
    scene.session.lost()
    assert budget.used == 0
    assert scene.output() == b""


async def test_a_reply_after_the_connection_was_lost_is_dropped(scene: Scene) -> None:
    scene.session.receive(frame(b"w"))
    scene.session.lost()
    scene.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    assert scene.output() == b""
    assert scene.woken == 0


async def test_a_cancelled_reply_closes_the_connection(scene: Scene) -> None:
    scene.session.receive(frame(b"w"))
    scene.pending[0].cancel()
    await asyncio.sleep(0)
    assert scene.session.finished


async def test_a_graceful_stop_answers_only_started_requests(scene: Scene) -> None:
    scene.session.receive(frame(b"w"))
    scene.session.stop_reading()
    scene.session.receive(frame(b"never"))
    assert not scene.session.finished
    scene.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    assert scene.output() == b"W"
    assert scene.session.finished
    assert scene.handled == [b"w"]


async def test_the_fast_path_is_used_only_while_no_request_is_pending(scene: Scene) -> None:
    asked: list[int] = []

    def at_once(data: bytes, at: int) -> tuple[Reply, int] | None:
        asked.append(at)
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        return ([b"[" + data[at + 4 : end] + b"]"], end) if data[at + 4 : at + 5] == b"q" else None

    scene.session = Session(scene.handle, scene.wake, scene.budget, 1 << 20, at_once)
    scene.session.receive(frame(b"q1") + frame(b"q2") + frame(b"w") + frame(b"q3"))
    assert asked == [0, 6, 12]
    assert scene.output() == b"[q1][q2]"
    scene.session.receive(frame(b"q4"))
    assert scene.handled == [b"w"]
    scene.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    scene.session.run()
    assert scene.output() == b"W<q3><q4>"
    scene.session.receive(frame(b"q5")[:3])
    scene.session.receive(frame(b"q5")[3:])
    scene.session.write_blocked = True
    scene.session.receive(frame(b"q6"))
    assert scene.output() == b"<q5>"
    assert asked == [0, 6, 12, 0]


def test_the_fast_path_handles_nothing_more_of_a_read_once_the_client_is_throttled(scene: Scene) -> None:
    def at_once(data: bytes, at: int) -> tuple[Reply, int] | None:
        scene.session.throttled = True
        return [b"<fast>"], at + 5

    scene.session = Session(scene.handle, scene.wake, scene.budget, 1 << 20, at_once)
    scene.session.receive(frame(b"a") + frame(b"b"))
    assert scene.session.take_output() == [b"<fast>"]
    assert scene.handled == []
    scene.session.throttled = False
    scene.session.run()
    assert scene.handled == [b"b"]


def test_the_fast_path_yields_to_other_connections(scene: Scene) -> None:
    scene.session = Session(scene.handle, scene.wake, scene.budget, 1 << 20, lambda _, at: ([b"."], at + 5))
    scene.session.receive(frame(b"x") * (3 * limits.REQUESTS_PER_TURN))
    assert len(scene.output()) < 5 * limits.REQUESTS_PER_TURN
    assert scene.session.runnable


def test_nothing_is_handled_after_a_close_on_the_fast_path(scene: Scene) -> None:
    scene.session = Session(scene.handle, scene.wake, scene.budget, 1 << 20, lambda data, _: (CLOSE, len(data)))
    scene.session.receive(frame(b"x"))
    assert scene.session.finished
    assert scene.handled == []


def test_received_data_is_freed_when_invalid_bytes_close_the_connection() -> None:
    """The session is part of a reference cycle, and the garbage collector, which would free it, runs seldom."""
    gc.disable()
    try:
        scene = Scene(max_request_bytes=50)
        read = bytearray(frame(b"x" * 51) + bytes(100_000))
        scene.session.receive(read)
        assert scene.session.finished
        read.append(0)  # raises BufferError while a memoryview of it exists
    finally:
        gc.enable()

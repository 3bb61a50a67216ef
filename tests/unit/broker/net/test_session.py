from __future__ import annotations

import asyncio
import gc
import struct
import tracemalloc
from collections.abc import Iterator

import pytest

from ottla.broker.api.reply import CLOSE, FinalResponse, Reply
from ottla.broker.core import limits
from ottla.broker.net.session import ByteBudget, Session
from ottla.protocol.errors import MalformedHeader
from ottla.protocol.wire import Buffer


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Harness:
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
        match body[-4:] if body.endswith(b"wait") else body[:1]:
            case b"w" | b"wait":
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
def harness() -> Iterator[Harness]:
    return Harness()


def test_requests_are_answered_equally_when_fed_byte_by_byte(harness: Harness) -> None:
    stream = frame(b"one") + frame(b"two") + frame(b"")
    whole = Harness()
    whole.session.receive(stream)
    for position in range(len(stream)):
        harness.session.receive(stream[position : position + 1])
    assert harness.handled == whole.handled == [b"one", b"two", b""]
    assert harness.output() == whole.output() == b"<one><two><>"


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


async def test_no_request_is_handled_before_the_previous_reply(harness: Harness) -> None:
    harness.session.receive(frame(b"first") + frame(b"w") + frame(b"0") + frame(b"last"))
    assert harness.handled == [b"first", b"w"]
    assert harness.output() == b"<first>"
    harness.session.receive(frame(b"after"))
    assert harness.handled == [b"first", b"w"]
    assert not harness.session.runnable
    harness.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    assert harness.woken == 1
    assert harness.output() == b"W"
    assert harness.session.runnable
    harness.session.run()
    assert harness.handled == [b"first", b"w", b"0", b"last", b"after"]
    assert harness.output() == b"<last><after>"
    assert harness.budget.used == 0


async def test_a_pending_request_without_response_blocks_later_requests(harness: Harness) -> None:
    harness.session.receive(frame(b"0") + frame(b"a") + frame(b"w") + frame(b"b"))
    assert harness.output() == b"<a>"
    assert harness.session.waiting
    harness.pending[0].set_result(None)
    await asyncio.sleep(0)
    harness.session.run()
    assert harness.output() == b"<b>"
    assert not harness.session.waiting


async def test_a_bounded_amount_is_read_behind_a_pending_request(harness: Harness) -> None:
    harness.session.receive(frame(b"w") + frame(b"a"))
    assert not harness.session.paused, "a peer that hangs up is noticed by reading"
    harness.session.receive(frame(b"x" * limits.READ_CHUNK_BYTES)[:-1])
    assert harness.session.paused
    assert harness.budget.used == harness.session.unhandled == 5 + 4 + limits.READ_CHUNK_BYTES - 1
    harness.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    harness.session.run()
    assert not harness.session.paused
    assert harness.handled == [b"w", b"a"]


def waiting_produce(acks: int) -> bytes:
    """A Produce request of version 3 that the handler answers later. Its client and transactional ids are null."""
    return struct.pack(">hhihhh", 0, 3, 1, -1, -1, acks) + b"wait"


async def test_nothing_is_read_behind_a_produce_that_waits_for_one_without_response(harness: Harness) -> None:
    """A producer may close its connection behind it; with acks=0, it does not wait for a response."""
    harness.session.receive(frame(waiting_produce(acks=0)))
    assert not harness.session.paused
    harness.session.receive(frame(b"\0\3 metadata") + frame(b"\0\0 produce"))
    assert harness.session.paused
    harness.pending[0].set_result(None)
    await asyncio.sleep(0)
    harness.session.run()
    assert harness.handled[1:] == [b"\0\3 metadata", b"\0\0 produce"]
    assert not harness.session.paused


@pytest.mark.parametrize("first", [b"w", waiting_produce(acks=-1), waiting_produce(acks=1)])
async def test_a_disconnection_behind_a_request_that_may_wait_long_is_noticed(harness: Harness, first: bytes) -> None:
    harness.session.receive(frame(first))
    harness.session.receive(frame(b"\0\0 produce"))
    assert len(harness.pending) == 1
    assert not harness.session.paused


@pytest.mark.parametrize("reads", [[bytes(limits.READ_CHUNK_BYTES)], [bytes(4)] * 10_000])
async def test_empty_frames_behind_a_pending_request_take_the_memory_that_is_counted(harness: Harness, reads: list[bytes]) -> None:
    harness.session.receive(frame(b"w"))
    tracemalloc.start()
    try:
        for read in reads:
            harness.session.receive(read)
        assert tracemalloc.get_traced_memory()[1] < limits.READ_CHUNK_BYTES
    finally:
        tracemalloc.stop()
    assert harness.budget.used == sum(map(len, reads))


@pytest.mark.parametrize("size", [1, 7, 1_000, 100_000])
async def test_very_many_requests_behind_a_pending_one_are_handled_in_order(harness: Harness, size: int) -> None:
    bodies = [b"w", *(b"%d" % number for number in range(1, 1_000)), b"w", *(b"%d" % number for number in range(1_000, 2_000))]
    stream = b"".join(map(frame, bodies))
    for position in range(0, len(stream), size):
        harness.session.receive(stream[position : position + size])
    assert harness.handled == [b"w"]
    for pending in range(2):
        harness.pending[pending].set_result([b"W"])
        await asyncio.sleep(0)
        while harness.session.runnable:
            harness.session.run()
    assert harness.handled == bodies
    assert harness.budget.used == harness.session.unhandled == 0


def test_a_close_reply_ends_the_session_after_earlier_replies(harness: Harness) -> None:
    harness.session.receive(frame(b"a") + frame(b"c") + frame(b"never"))
    assert harness.session.paused
    assert not harness.session.finished
    assert harness.output() == b"<a>"
    assert harness.session.finished
    harness.session.receive(frame(b"never"))
    assert harness.handled == [b"a", b"c"]


@pytest.mark.parametrize("reply", [CLOSE, FinalResponse([b"half"])])
async def test_a_pending_close_reply_ends_the_session_and_drops_later_requests(harness: Harness, reply: Reply) -> None:
    harness.session.receive(frame(b"w") + frame(b"never"))
    harness.pending[0].set_result(reply)
    await asyncio.sleep(0)
    assert harness.output() == (b"half" if isinstance(reply, list) else b"")
    assert harness.session.finished
    assert harness.handled == [b"w"]
    assert harness.budget.used == 0


def test_invalid_bytes_end_the_session_after_earlier_requests(harness: Harness) -> None:
    harness.session.receive(frame(b"ok") + frame(b"!") + frame(b"never"))
    assert harness.output() == b"<ok>"
    assert harness.session.finished
    assert harness.handled == [b"ok", b"!"]


def test_a_frame_above_the_limit_ends_the_session_before_its_bytes_arrive() -> None:
    harness = Harness(max_request_bytes=100)
    harness.session.receive(frame(b"ok") + struct.pack(">i", 101))
    assert harness.output() == b"<ok>"
    assert harness.session.finished


def test_a_negative_frame_size_ends_the_session(harness: Harness) -> None:
    harness.session.receive(struct.pack(">i", -1))
    assert harness.session.finished


async def test_invalid_bytes_end_the_session_only_after_the_pending_reply(harness: Harness) -> None:
    harness.session.receive(frame(b"w") + frame(b"a") + struct.pack(">i", -1))
    assert harness.session.paused
    harness.session.receive(frame(b"never"))
    harness.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    harness.session.run()
    assert harness.output() == b"W<a>"
    assert harness.session.finished


def test_a_long_pipeline_yields_to_other_connections(harness: Harness) -> None:
    harness.session.receive(frame(b"a") * (limits.REQUESTS_PER_TURN + 1))
    assert len(harness.handled) == limits.REQUESTS_PER_TURN
    assert harness.session.runnable
    assert harness.session.paused
    harness.session.run()
    assert len(harness.handled) == limits.REQUESTS_PER_TURN + 1
    assert not harness.session.paused


def test_all_requests_before_invalid_bytes_are_answered(harness: Harness) -> None:
    harness.session.receive(frame(b"a") * 1_000 + struct.pack(">i", -1))
    while harness.session.runnable:
        harness.session.run()
    assert len(harness.handled) == 1_000
    harness.output()
    assert harness.session.finished


def test_no_request_is_started_while_the_peer_does_not_read(harness: Harness) -> None:
    harness.session.write_blocked = True
    harness.session.receive(frame(b"a"))
    assert harness.handled == []
    assert harness.session.paused
    harness.session.write_blocked = False
    harness.session.run()
    assert harness.output() == b"<a>"
    assert not harness.session.paused


def test_large_responses_pause_the_session_until_they_are_written(harness: Harness) -> None:
    harness.session.receive(frame(b"B") + frame(b"B") + frame(b"a"))
    assert harness.handled == [b"B"]
    harness.output()
    harness.session.run()
    assert harness.handled == [b"B", b"B"]


def test_partly_read_frames_count_against_the_budget_until_they_are_handled() -> None:
    budget = ByteBudget(limit=50)
    harness = Harness(budget)
    other = Harness(budget)
    harness.session.receive(frame(b"x" * 100)[:60])
    assert budget.used == 60
    assert not harness.session.paused, "a frame that was begun may be read to its end"
    other.session.receive(frame(b"small"))
    assert other.handled == [b"small"], "what comes whole needs no memory"
    assert not other.session.paused
    other.session.receive(frame(b"y" * 100)[:10])
    assert (other.session.paused, other.session.waits_for_memory) == (True, True), "no other frame is read on"
    harness.session.receive(frame(b"x" * 100)[60:])
    assert budget.used == 10
    assert not other.session.paused
    other.session.receive(frame(b"y" * 100)[10:])
    assert (budget.used, other.handled[1:]) == (0, [b"y" * 100])


def test_a_frame_begun_before_the_shortage_is_read_to_its_end() -> None:
    budget = ByteBudget(limit=50)
    harness = Harness(budget)
    budget.used = 50
    harness.session.receive(frame(b"x" * 100)[:10])
    assert harness.session.waits_for_memory
    budget.used -= 50
    harness.session.receive(frame(b"x" * 100)[10:70])
    assert budget.used == 70
    assert not harness.session.paused


def test_a_frame_begun_behind_a_complete_one_waits_for_memory() -> None:
    budget = ByteBudget(limit=50)
    harness = Harness(budget)
    budget.used = 50
    harness.session.receive(frame(b"all of it") + b"\0")
    assert (harness.handled, harness.session.waits_for_memory) == ([b"all of it"], True)


def test_a_frame_begun_behind_very_many_complete_ones_waits_for_memory() -> None:
    budget = ByteBudget(limit=50)
    harness = Harness(budget)
    budget.used = 50
    harness.session.receive(frame(b"0") * (limits.REQUESTS_PER_TURN + 1) + b"\0")
    assert harness.session.runnable
    harness.session.run()
    assert (len(harness.handled), harness.session.waits_for_memory) == (limits.REQUESTS_PER_TURN + 1, True)


async def test_a_frame_received_before_the_shortage_is_read_to_its_end_although_it_is_split_later() -> None:
    budget = ByteBudget(limit=50)
    harness = Harness(budget)
    harness.session.receive(frame(b"w") + frame(b"0"))
    harness.session.receive(frame(b"x" * 100)[:10])
    budget.used += 50
    harness.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    harness.session.run()
    assert (harness.handled, harness.session.unhandled) == ([b"w", b"0"], 10)
    assert not harness.session.paused


def test_a_lost_connection_releases_its_memory() -> None:
    budget = ByteBudget()
    harness = Harness(budget)
    harness.session.receive(frame(b"x" * 100)[:60])
    harness.session.lost()
    assert budget.used == 0
    assert harness.output() == b""


async def test_a_reply_after_the_connection_was_lost_is_dropped(harness: Harness) -> None:
    harness.session.receive(frame(b"w"))
    harness.session.lost()
    harness.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    assert harness.output() == b""
    assert harness.woken == 0


async def test_a_cancelled_reply_closes_the_connection(harness: Harness) -> None:
    harness.session.receive(frame(b"w"))
    harness.pending[0].cancel()
    await asyncio.sleep(0)
    assert harness.session.finished


async def test_a_graceful_stop_answers_only_started_requests(harness: Harness) -> None:
    harness.session.receive(frame(b"w"))
    harness.session.stop_reading()
    harness.session.receive(frame(b"never"))
    assert not harness.session.finished
    harness.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    assert harness.output() == b"W"
    assert harness.session.finished
    assert harness.handled == [b"w"]


async def test_the_fast_path_is_used_only_while_no_request_is_pending(harness: Harness) -> None:
    positions: list[int] = []

    def try_fast_path(data: bytes, at: int) -> tuple[Reply, int] | None:
        positions.append(at)
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        return ([b"[" + data[at + 4 : end] + b"]"], end) if data[at + 4 : at + 5] == b"q" else None

    harness.session = Session(harness.handle, harness.wake, harness.budget, 1 << 20, try_fast_path)
    harness.session.receive(frame(b"q1") + frame(b"q2") + frame(b"w") + frame(b"q3"))
    assert positions == [0, 6, 12]
    assert harness.output() == b"[q1][q2]"
    harness.session.receive(frame(b"q4"))
    assert harness.handled == [b"w"]
    harness.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    harness.session.run()
    assert harness.output() == b"W<q3><q4>"
    harness.session.receive(frame(b"q5")[:3])
    harness.session.receive(frame(b"q5")[3:])
    harness.session.write_blocked = True
    harness.session.receive(frame(b"q6"))
    assert harness.output() == b"<q5>"
    assert positions == [0, 6, 12, 0]


def test_the_fast_path_handles_nothing_more_of_a_read_once_the_client_is_throttled(harness: Harness) -> None:
    def try_fast_path(data: bytes, at: int) -> tuple[Reply, int] | None:
        harness.session.throttled = True
        return [b"<fast>"], at + 5

    harness.session = Session(harness.handle, harness.wake, harness.budget, 1 << 20, try_fast_path)
    harness.session.receive(frame(b"a") + frame(b"b"))
    assert harness.session.take_output() == [b"<fast>"]
    assert harness.handled == []
    harness.session.throttled = False
    harness.session.run()
    assert harness.handled == [b"b"]


def test_the_fast_path_yields_to_other_connections(harness: Harness) -> None:
    harness.session = Session(harness.handle, harness.wake, harness.budget, 1 << 20, lambda _, at: ([b"."], at + 5))
    harness.session.receive(frame(b"x") * (3 * limits.REQUESTS_PER_TURN))
    assert len(harness.output()) < 5 * limits.REQUESTS_PER_TURN
    assert harness.session.runnable


def test_nothing_is_handled_after_a_close_on_the_fast_path(harness: Harness) -> None:
    harness.session = Session(harness.handle, harness.wake, harness.budget, 1 << 20, lambda data, _: (CLOSE, len(data)))
    harness.session.receive(frame(b"x"))
    assert harness.session.finished
    assert harness.handled == []


def test_received_data_is_freed_when_invalid_bytes_close_the_connection() -> None:
    """The session is part of a reference cycle, and the garbage collector, which would free it, runs seldom."""
    gc.disable()
    try:
        harness = Harness(max_request_bytes=50)
        read = bytearray(frame(b"x" * 51) + bytes(100_000))
        harness.session.receive(read)
        assert harness.session.finished
        read.append(0)  # raises BufferError while a memoryview of it exists
    finally:
        gc.enable()

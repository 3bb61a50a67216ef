from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator

import pytest

from broker.api.reply import CLOSE, Buffer, Reply
from broker.core import limits
from broker.net.session import ByteBudget, Session
from protocol.errors import MalformedHeader


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Scene:
    """A session whose handler echoes, unless the frame's first letter says otherwise."""

    def __init__(self, budget: ByteBudget | None = None, max_request_bytes: int = 1 << 20) -> None:
        self.handled: list[bytes] = []
        self.pending: list[asyncio.Future[Reply]] = []
        self.woken = 0
        self.promised_bytes = 0
        self.budget = budget or ByteBudget()
        self.session = Session(self.handle, self.wake, self.budget, max_request_bytes, self)

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


def test_requests_fed_byte_by_byte_are_answered_as_when_fed_at_once(scene: Scene) -> None:
    stream = frame(b"one") + frame(b"two") + frame(b"")
    whole = Scene()
    whole.session.receive(stream)
    for position in range(len(stream)):
        scene.session.receive(stream[position : position + 1])
    assert scene.handled == whole.handled == [b"one", b"two", b""]
    assert scene.output() == whole.output() == b"<one><two><>"


async def test_responses_keep_the_order_of_requests_whatever_finishes_first(scene: Scene) -> None:
    scene.session.receive(frame(b"w1") + frame(b"fast") + frame(b"w2") + frame(b"last"))
    assert scene.handled == [b"w1", b"fast", b"w2", b"last"]
    assert scene.output() == b""
    scene.pending[1].set_result([b"W2"])
    await asyncio.sleep(0)
    assert scene.output() == b""
    scene.pending[0].set_result([b"W1"])
    await asyncio.sleep(0)
    assert scene.output() == b"W1<fast>W2<last>"
    assert scene.woken == 2


async def test_a_request_without_response_takes_no_place_in_the_order(scene: Scene) -> None:
    scene.session.receive(frame(b"0") + frame(b"a") + frame(b"w") + frame(b"0") + frame(b"b"))
    scene.pending[0].set_result(None)
    await asyncio.sleep(0)
    assert scene.output() == b"<a><b>"
    assert scene.session.in_flight == 0


async def test_a_close_reply_ends_the_session_after_what_came_before_it(scene: Scene) -> None:
    scene.session.receive(frame(b"w") + frame(b"c") + frame(b"never"))
    assert scene.session.paused
    assert not scene.session.finished
    scene.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    assert scene.output() == b"W"
    assert scene.session.finished
    scene.session.receive(frame(b"never"))
    assert b"never" not in scene.handled[3:]


def test_untrusted_bytes_end_the_session_after_what_came_before_them(scene: Scene) -> None:
    scene.session.receive(frame(b"ok") + frame(b"!") + frame(b"never"))
    assert scene.output() == b"<ok>"
    assert scene.session.finished
    assert scene.handled == [b"ok", b"!"]


def test_a_frame_above_the_limit_ends_the_session_before_its_bytes_come() -> None:
    scene = Scene(max_request_bytes=100)
    scene.session.receive(frame(b"ok") + struct.pack(">i", 101))
    assert scene.output() == b"<ok>"
    assert scene.session.finished


def test_a_negative_frame_size_ends_the_session(scene: Scene) -> None:
    scene.session.receive(struct.pack(">i", -1))
    assert scene.session.finished


async def test_no_more_than_the_limit_of_requests_is_in_flight(scene: Scene) -> None:
    scene.session.receive(frame(b"w") * (limits.IN_FLIGHT_REQUESTS + 3))
    while scene.session.runnable:
        scene.session.run()
    assert len(scene.handled) == limits.IN_FLIGHT_REQUESTS
    assert scene.session.paused
    scene.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    assert scene.session.runnable
    scene.session.run()
    assert len(scene.handled) == limits.IN_FLIGHT_REQUESTS + 1


def test_a_pipeline_of_many_requests_lets_others_have_their_turn(scene: Scene) -> None:
    scene.session.receive(frame(b"a") * (limits.REQUESTS_PER_TURN + 1))
    assert len(scene.handled) == limits.REQUESTS_PER_TURN
    assert scene.session.runnable
    assert scene.session.paused
    scene.session.run()
    assert len(scene.handled) == limits.REQUESTS_PER_TURN + 1
    assert not scene.session.paused


def test_what_came_before_bytes_that_cannot_be_trusted_is_answered_however_much_it_is(scene: Scene) -> None:
    scene.session.receive(frame(b"a") * 1_000 + struct.pack(">i", -1))
    assert len(scene.handled) == 1_000


def test_while_the_peer_does_not_read_nothing_more_is_started(scene: Scene) -> None:
    scene.session.write_blocked = True
    scene.session.receive(frame(b"a"))
    assert scene.handled == []
    assert scene.session.paused
    scene.session.write_blocked = False
    scene.session.run()
    assert scene.output() == b"<a>"
    assert not scene.session.paused


def test_large_responses_stop_the_session_until_they_are_taken(scene: Scene) -> None:
    scene.session.receive(frame(b"B") + frame(b"B") + frame(b"a"))
    assert scene.handled == [b"B"]
    scene.output()
    scene.session.run()
    assert scene.handled == [b"B", b"B"]


async def test_large_responses_that_wait_for_their_turn_stop_the_session_and_count_against_the_budget(scene: Scene) -> None:
    scene.session.receive(frame(b"w") + frame(b"B") + frame(b"B") + frame(b"a"))
    assert scene.handled == [b"w", b"B"]
    assert scene.session.paused
    assert scene.budget.used > limits.WRITE_HIGH_BYTES
    scene.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    assert len(scene.output()) == 1 + limits.WRITE_HIGH_BYTES
    scene.session.run()
    scene.output()
    scene.session.run()
    assert scene.handled == [b"w", b"B", b"B", b"a"]
    assert scene.budget.used == 0


async def test_nothing_is_started_while_parked_requests_may_bring_too_much(scene: Scene) -> None:
    scene.session.receive(frame(b"w1") + frame(b"w2"))
    scene.promised_bytes = limits.PROMISED_BYTES
    scene.session.receive(frame(b"a"))
    assert scene.handled == [b"w1", b"w2"]
    assert scene.session.paused
    scene.promised_bytes -= 1
    scene.pending[1].set_result([b"W2"])
    await asyncio.sleep(0)
    assert scene.woken == 1, "the shell goes on with the backlog"
    assert scene.session.runnable


def test_partly_read_frames_count_against_the_budget_until_they_are_handled() -> None:
    budget = ByteBudget(limit=50)
    scene = Scene(budget)
    other = Scene(budget)
    scene.session.receive(frame(b"x" * 100)[:60])
    assert budget.used == 60
    assert not scene.session.paused, "a frame that was begun may be read to its end"
    assert other.session.paused, "no other may be begun"
    scene.session.receive(frame(b"x" * 100)[60:])
    assert budget.used == 0
    assert not other.session.paused


def test_a_lost_connection_gives_back_what_it_held() -> None:
    budget = ByteBudget()
    scene = Scene(budget)
    scene.session.receive(frame(b"x" * 100)[:60])
    scene.session.lost()
    assert budget.used == 0
    assert scene.output() == b""


async def test_a_reply_that_comes_after_the_connection_was_lost_is_dropped(scene: Scene) -> None:
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


async def test_a_graceful_stop_answers_what_was_started_and_nothing_else(scene: Scene) -> None:
    scene.session.receive(frame(b"w"))
    scene.session.stop_reading()
    scene.session.receive(frame(b"never"))
    assert not scene.session.finished
    scene.pending[0].set_result([b"W"])
    await asyncio.sleep(0)
    assert scene.output() == b"W"
    assert scene.session.finished
    assert scene.handled == [b"w"]


def test_frames_that_were_begun_may_not_grow_beyond_twice_the_budget() -> None:
    budget = ByteBudget(limit=50)
    scenes = [Scene(budget) for _ in range(3)]
    for scene in scenes:
        scene.session.receive(frame(b"x" * 1000)[:30])
    scenes[0].session.receive(b"x" * 60)
    assert scenes[0].session.finished
    assert budget.used == 60
    scenes[1].session.receive(b"x" * 10)
    assert not scenes[1].session.finished

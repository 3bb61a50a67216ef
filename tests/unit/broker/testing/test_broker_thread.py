"""The thread and the event loop of an in-process broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from ottla.broker.testing import InProcessBroker
from ottla.broker.testing.broker_thread import NodeThread
from ottla.protocol.client import Client
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest


def test_call_runs_on_the_brokers_thread_and_returns_its_result_or_error() -> None:
    with InProcessBroker() as broker:
        assert broker.call(lambda _: threading.current_thread().name) == "ottla-broker"
        assert broker.call(lambda running: running) is broker.broker
        with pytest.raises(ZeroDivisionError):
            broker.call(lambda _: 1 // 0)


def test_kill_cancels_tasks_of_the_loop_and_ends_the_thread() -> None:
    with InProcessBroker() as broker:
        begun, ended = threading.Event(), threading.Event()

        async def wait() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(wait())

        task = broker.call_async(begin())
        assert begun.wait(10)
        thread = broker.call(lambda _: threading.current_thread())
        broker.kill()
        assert (ended.is_set(), task.cancelled(), thread.is_alive(), broker.running) == (True, True, False, False)


def test_condition_that_never_holds_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with InProcessBroker() as broker:
        monkeypatch.setattr("ottla.broker.testing.broker_thread.TIMEOUT_S", 0.05)
        with pytest.raises(TimeoutError):
            broker.call_until(lambda _: False)
        monkeypatch.undo()


def test_call_before_the_start_raises_and_leaves_no_unawaited_coroutine() -> None:
    broker = InProcessBroker()
    assert isinstance(broker, NodeThread)
    with pytest.raises(RuntimeError, match="start it first"):
        broker.call(lambda _: None)
    broker.stop()


def test_paused_broker_keeps_its_connections_and_answers_after_resume() -> None:
    with InProcessBroker() as broker, Client("127.0.0.1", broker.port, timeout_s=0.05) as client:
        broker.pause()
        broker.pause()
        with pytest.raises(RuntimeError, match="the broker is paused: resume it first"):
            broker.call(lambda _: None)
        with pytest.raises(TimeoutError):
            client.call(ApiVersionsRequest(), version=0)
        broker.resume()
        assert client.read_frame()
        broker.resume()


@pytest.mark.parametrize("end", [InProcessBroker.stop, InProcessBroker.kill])
def test_paused_broker_can_be_stopped_or_killed(end: Callable[[InProcessBroker], None]) -> None:
    with InProcessBroker() as broker:
        broker.pause()
        end(broker)
        assert not broker.running


def test_killed_paused_broker_runs_nothing_more() -> None:
    with InProcessBroker() as broker:
        ran: list[int] = []
        broker.pause()
        broker.node.timers.schedule(0, lambda: ran.append(1))
        broker.kill()
        assert ran == []

"""A stopped node leaves no task, timer or thread behind; after a simulated crash, it does not touch a file either."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.app import Broker
from ottla.broker.controller_node import ControllerNode
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import load
from ottla.broker.faults.engine import Faults
from ottla.broker.layout import Layout
from ottla.broker.local_cluster import LocalCluster
from ottla.protocol.client import Client
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.schema import Message
from tests.support.simulation import settle

SMALL = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
HOST = "127.0.0.1"


class WatchedLoop(asyncio.SelectorEventLoop):
    """An event loop that records its timers."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[asyncio.TimerHandle] = []

    def call_at(self, *args: Any, **named: Any) -> asyncio.TimerHandle:
        self.timers.append(super().call_at(*args, **named))
        return self.timers[-1]

    @property
    def pending(self) -> list[asyncio.TimerHandle]:
        """Return the timers that have neither run nor been cancelled."""
        return [timer for timer in self.timers if not timer.cancelled() and timer.when() > self.time()]


Node = Broker | ControllerNode


def settings(path: Path, **given: str) -> BrokerSettings:
    return load({"log.dir": str(path), "listeners": f"PLAINTEXT://{HOST}:0", **SMALL, **given}, {}, None).settings


async def lone_broker(path: Path) -> list[Node]:
    broker = Broker(settings(path), Faults(), exit_now=lambda _: None)
    await broker.start()
    return [broker]


async def cluster(path: Path) -> list[Node]:
    def settings_of(given: Mapping[str, str]) -> BrokerSettings:
        return load({**SMALL, **given}, {}, None).settings

    layout = Layout(path, 2, HOST, 0)
    running = LocalCluster(layout, settings_of, Faults, exit_now=lambda _: None)
    await running.start()
    return [*running.brokers.values(), running.controller]


def ask(port: int, request: Message) -> Any:
    """Send a request; return the response, or None if the node stops meanwhile."""
    with suppress(OSError, ProtocolError), Client(HOST, port) as client:
        return client.call(request)


async def keep_busy(broker: Broker) -> list[Awaitable[Any]]:
    """Let the broker create topics, load coordinators and hold two requests back; return the pending requests."""
    port = broker.address[1]
    await asyncio.to_thread(ask, port, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
    topic = None
    while topic is None:
        await asyncio.sleep(0)
        topic = broker.services.topics.topic("t")
    await asyncio.to_thread(ask, port, InitProducerIdRequest(None, 1_000))
    place = FetchTopic(topic_id=topic.topic_id, partitions=[FetchPartition(0, partition_max_bytes=1_000)])
    fetch = FetchRequest(max_wait_ms=60_000, min_bytes=1, session_epoch=0, topics=[place])
    join = JoinGroupRequest("g", 60_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    held = [asyncio.ensure_future(asyncio.to_thread(ask, port, request)) for request in (fetch, join)]
    while {key for key, _ in broker.requests}.isdisjoint({fetch.API_KEY}):  # noqa: ASYNC110 # counted by a request of another thread
        await asyncio.sleep(0)
    await settle()
    return list(held)


def contents(path: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}


async def close(nodes: list[Node], path: Path, how: str) -> None:
    for node in nodes:
        if how == "stop":
            await node.stop()
        elif how == "crash":
            node.crash()
        else:
            node.stop_at_once(OSError(5, "Input/output error"))
            await asyncio.sleep(0)
    left = contents(path)
    await settle()
    assert contents(path) == left


@pytest.mark.parametrize("how", ["stop", "crash", "failed fsync"])
@pytest.mark.parametrize("start", [lone_broker, cluster])
def test_closed_nodes_leave_no_tasks_threads_or_callbacks(start: Callable[[Path], Awaitable[list[Node]]], how: str, tmp_path: Path) -> None:
    threads = set(threading.enumerate())

    async def body() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, WatchedLoop)
        nodes = await start(tmp_path / "data")
        assert isinstance(nodes[0], Broker)
        held = await keep_busy(nodes[0])
        await close(nodes, tmp_path, how)
        await asyncio.gather(*held)
        await loop.shutdown_default_executor()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert loop.pending == []
        assert set(threading.enumerate()) == threads

    with asyncio.Runner(loop_factory=WatchedLoop) as runner:
        runner.run(body())

"""A broker's lifecycle under a real Kafka controller: registered, seen by clients, fenced after silence, replaced, shut down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import pytest

from client_compat.kafka.reference import NEW_CLUSTER_ID, ReferenceBroker
from client_compat.kafka.tools import Tools
from ottla.broker.cluster.life_cycle import Incarnation, LifecycleTimeouts, State
from ottla.broker.cluster.metadata_records import Endpoint
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.net.network import Sockets
from ottla.broker.net.node_client import NodeClient
from ottla.broker.runtime.nodes.controller_channel import ControllerChannel
from ottla.broker.runtime.nodes.life import BrokerLifecycleManager
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver, pause
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.apache_kafka import jars_or_skip
from tests.support.kafka_tools import good
from tests.support.running_broker import HOST

BROKER_ID, INTERVAL_MS, SESSION_MS, PATIENCE_MS = 5, 300, 1_500, 30_000
QUICK = {"broker.session.timeout.ms": str(SESSION_MS), "broker.heartbeat.interval.ms": str(INTERVAL_MS)}


class Beside:
    """Broker lifecycles on this loop, with the machine's time and network, and the view of Kafka's clients."""

    def __init__(self, kafka: ReferenceBroker) -> None:
        self.kafka = kafka
        self.clock, self.timers = Clock(), Timers()
        self.driver = TimerDriver(self.timers, self.clock)
        self.driver.start()
        self.nurseries: dict[BrokerLifecycleManager, Nursery] = {}

    def connect(self, node: Node) -> NodeClient:
        return NodeClient(node, Sockets(), clock=self.clock, timers=self.timers, random=Random(1), client_id="life")

    def broker(self, incarnation: int, port: int, previous_epoch: int = -1) -> BrokerLifecycleManager:
        """Make a broker that reports all metadata up to its own registration as read, as soon as it is registered."""
        controller = Node(self.kafka.node_id, HOST, self.kafka.controller_port)
        channel = ControllerChannel(
            self.connect, lambda: controller, clock=self.clock, timers=self.timers, name="life", retry_timeout_ms=INTERVAL_MS
        )
        listeners = [Endpoint("PLAINTEXT", HOST, port, 0)]
        known = Incarnation(BROKER_ID, NEW_CLUSTER_ID, bytes([incarnation] * 16), listeners, [b"\x10" * 16], "east", previous_epoch)
        nursery = Nursery(self.timers, self.clock, pytest.fail)
        life = BrokerLifecycleManager(
            channel,
            known,
            LifecycleTimeouts(INTERVAL_MS),
            nursery=nursery,
            published_offset=lambda: life.broker_epoch,
            on_registered=lambda epoch: None,
            on_lost=pytest.fail,
        )
        self.nurseries[life] = nursery
        return life

    def seen(self) -> tuple[str, int, str | None] | None:
        """Return (host, port, rack) under which Kafka's clients see the broker; None if it is fenced."""
        with Client(HOST, self.kafka.port) as client:
            brokers = client.call(MetadataRequest(topics=[])).brokers
        return next(((at.host, at.port, at.rack) for at in brokers if at.node_id == BROKER_ID), None)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        end = self.clock.mono_ms() + PATIENCE_MS
        while not holds():
            assert self.clock.mono_ms() < end, f"waited in vain until {what}"
            await pause(self.timers, self.clock, 20)


@pytest.fixture
async def beside(tmp_path: Path) -> AsyncIterator[Beside]:
    jars_or_skip()
    with ReferenceBroker(tmp_path / "data", QUICK) as kafka:
        made = Beside(kafka)
        yield made
        for nursery in made.nurseries.values():
            await nursery.stop()
        made.driver.stop()


async def test_broker_is_visible_while_it_sends_heartbeats_and_its_successor_after_its_session_ends(
    beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = beside.broker(1, 19_001), beside.broker(2, 19_002)
    first.start()
    await first.caught_up
    await pause(beside.timers, beside.clock, 2 * INTERVAL_MS)
    assert (first.state, beside.seen()) == (State.RECOVERY, None)

    first.ready_to_unfence()
    await first.unfenced
    await beside.until(lambda: beside.seen() == (HOST, 19_001, "east"), "Kafka's clients see the broker")

    second.start()
    await beside.until(lambda: "DUPLICATE_BROKER_REGISTRATION" in caplog.text, "another process of the same id is refused")
    assert (second.state, second.broker_epoch, first.state) == (State.STARTING, -1, State.RUNNING)

    await beside.nurseries[first].stop()
    await beside.until(lambda: beside.seen() is None, "the silent broker is fenced")
    await second.caught_up
    assert second.broker_epoch > first.broker_epoch
    second.ready_to_unfence()
    await second.unfenced
    await beside.until(lambda: beside.seen() == (HOST, 19_002, "east"), "its successor is seen")
    described = await asyncio.to_thread(Tools().run, "kafka-broker-api-versions", "--bootstrap-server", beside.kafka.bootstrap)
    assert f"(id: {BROKER_ID} rack: east" in good(described)

    assert await second.controlled_shutdown()
    assert second.state is State.SHUTTING_DOWN
    await beside.until(lambda: beside.seen() is None, "a broker that was let go is fenced")

    third = beside.broker(3, 19_003, previous_epoch=second.broker_epoch)
    third.start()
    await third.caught_up
    assert third.broker_epoch > second.broker_epoch

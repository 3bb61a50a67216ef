from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.cluster.image import EMPTY, BrokerRegistration, MetadataImage
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.life_cycle import Incarnation, LifecycleTimeouts, State
from ottla.broker.cluster.metadata_loader import Provenance, Published
from ottla.broker.cluster.metadata_records import Endpoint
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.nodes.controller_channel import ControllerChannel
from ottla.broker.runtime.nodes.life import BrokerLifecycleManager, StartupAborted, incarnation_of, timeouts_of
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.storage.log_dir import LogDir
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatResponse
from tests.support.node_links import LinkHarness
from tests.support.simulation import settle

CONTROLLER = Node(3000, "controller", 9093)
SERVED: dict[int, tuple[int, int]] = {ApiKey.BROKER_REGISTRATION: (0, 4), ApiKey.BROKER_HEARTBEAT: (0, 2)}
EPOCH, DIRECTORY, INTERVAL = 12, b"\x10" * 16, 2_000


class Living(LinkHarness):
    """A broker's lifecycle, with a scripted controller that registers it at offset 12 unless told not to respond."""

    def __init__(self) -> None:
        super().__init__()
        self.published_offset = 0
        self.registered: list[int] = []
        self.lost: list[str] = []
        self.requests: list[Any] = []
        self.refuses = ErrorCode.NONE
        self.lets_go = False
        self.life = BrokerLifecycleManager(
            ControllerChannel(
                self.connect, lambda: CONTROLLER, clock=self.clock, timers=self.timers, name="life", retry_timeout_ms=INTERVAL
            ),
            Incarnation(5, "cluster", b"\x07" * 16, [Endpoint("PLAINTEXT", "h", 9092, 0)], [DIRECTORY]),
            LifecycleTimeouts(INTERVAL, registration_timeout_ms=60_000),
            nursery=self.nursery,
            published_offset=lambda: self.published_offset,
            on_registered=self.registered.append,
            on_lost=self.lost.append,
        )

    async def start(self) -> Living:
        await self.answering(CONTROLLER, self.answer, SERVED)
        self.life.start()
        await settle()
        return self

    async def run(self) -> Living:
        """Wait until the broker is running."""
        await self.start()
        self.published_offset = EPOCH
        await self.pass_ms(10)
        self.life.ready_to_unfence()
        await settle()
        assert self.life.state is State.RUNNING
        return self

    def answer(self, request: Request) -> Any:
        body = request.body
        self.requests.append(body)
        if isinstance(body, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(error_code=self.refuses, broker_epoch=-1 if self.refuses else EPOCH)
        caught_up = body.current_metadata_offset >= EPOCH
        return BrokerHeartbeatResponse(
            error_code=self.refuses,
            is_caught_up=caught_up,
            is_fenced=body.want_fence or not caught_up,
            should_shut_down=self.lets_go and body.want_shut_down,
        )


@pytest.fixture
async def living() -> Living:
    return Living()


async def test_a_broker_is_registered_then_caught_up_then_unfenced(living: Living) -> None:
    await living.start()
    assert (living.registered, living.life.broker_epoch, living.life.state) == ([EPOCH], EPOCH, State.STARTING)
    assert not living.life.caught_up.done()
    living.published_offset = EPOCH
    await living.pass_ms(10)
    assert living.life.caught_up.done()
    await living.pass_ms(10 * INTERVAL)
    assert not living.life.unfenced.done()
    living.life.ready_to_unfence()
    await living.life.unfenced


async def test_heartbeats_report_the_published_metadata_offset_at_each_interval(living: Living) -> None:
    await living.run()
    before = len(living.requests)
    living.published_offset = 30
    await living.pass_ms(INTERVAL - 1)
    assert len(living.requests) == before
    await living.pass_ms(1)
    assert [beat.current_metadata_offset for beat in living.requests[before:]] == [30]


async def test_a_refused_registration_is_retried_until_it_succeeds(living: Living) -> None:
    living.refuses = ErrorCode.DUPLICATE_BROKER_REGISTRATION
    await living.start()
    await living.pass_ms(INTERVAL)
    assert [type(each) for each in living.requests] == [BrokerRegistrationRequest] * 2
    living.refuses = ErrorCode.NONE
    await living.pass_ms(INTERVAL)
    assert living.registered == [EPOCH]


async def test_a_registration_that_times_out_fails_the_start(living: Living) -> None:
    living.life.start()
    for _ in range(60):
        assert living.lost == []
        await living.pass_ms(1_000)
    assert living.lost == ["not registered with a controller in initial.broker.registration.timeout.ms=60000"]
    for milestone in (living.life.caught_up, living.life.unfenced):
        with pytest.raises(StartupAborted):
            await milestone


async def test_heartbeats_continue_after_the_controller_was_away(living: Living) -> None:
    node = await living.answering(CONTROLLER, living.answer, SERVED)
    living.life.start()
    await settle()
    living.published_offset = EPOCH
    node.stop()
    for _ in range(120):
        await living.pass_ms(1_000)
    assert (living.lost, living.life.state) == ([], State.STARTING)
    await living.answering(CONTROLLER, living.answer, SERVED)
    for _ in range(5):
        await living.pass_ms(1_000)
    assert living.life.caught_up.done()


async def test_a_controlled_shutdown_ends_when_the_controller_agrees(living: Living) -> None:
    await living.run()
    shutdown = asyncio.ensure_future(living.life.controlled_shutdown())
    await settle()
    assert living.requests[-1].want_shut_down
    living.lets_go = True
    await living.pass_ms(50)
    assert await shutdown
    assert living.life.state is State.SHUTTING_DOWN


async def test_a_controlled_shutdown_ends_after_its_timeout_without_consent(living: Living) -> None:
    """Scenario 39: a broker has to stop while the controller does not agree."""
    await living.run()
    shutdown = asyncio.ensure_future(living.life.controlled_shutdown(timeout_ms=10_000))
    await settle()
    for _ in range(10):
        await living.pass_ms(1_000)
    assert not await shutdown


async def test_a_controlled_shutdown_waits_for_an_unavailable_controller(living: Living) -> None:
    """Scenario 39: a broker has to stop while there is no controller."""
    node = await living.answering(CONTROLLER, living.answer, SERVED)
    living.life.start()
    await settle()
    living.published_offset = EPOCH
    await living.pass_ms(10)
    living.life.ready_to_unfence()
    await settle()
    node.stop()
    shutdown = asyncio.ensure_future(living.life.controlled_shutdown(timeout_ms=60_000))
    for _ in range(30):
        await living.pass_ms(1_000)
    assert (shutdown.done(), living.life.state) == (False, State.PENDING_CONTROLLED_SHUTDOWN)
    living.lets_go = True
    await living.answering(CONTROLLER, living.answer, SERVED)
    for _ in range(5):
        await living.pass_ms(1_000)
    assert await shutdown


async def test_a_broker_that_is_not_registered_yet_stops_at_once(living: Living) -> None:
    await living.start()
    assert await living.life.controlled_shutdown()


async def test_a_failed_directory_is_reported_in_the_heartbeat(living: Living) -> None:
    await living.run()
    living.life.directory_failed(DIRECTORY)
    await settle()
    assert living.requests[-1].offline_log_dirs == [DIRECTORY]


@pytest.mark.parametrize(("directories", "registrations"), [((), 2), ((DIRECTORY,), 1)])
async def test_a_broker_registers_again_if_metadata_lacks_its_directories(
    living: Living, directories: tuple[bytes, ...], registrations: int
) -> None:
    await living.run()
    registration = BrokerRegistration(5, EPOCH, b"\x07" * 16, {}, {}, None, False, False, False, directories, None)
    image = MetadataImage(features={"metadata.version": 30}, brokers={5: registration})
    living.life.published(Published(image, Provenance(), difference(EMPTY, image)))
    await settle()
    assert sum(isinstance(each, BrokerRegistrationRequest) for each in living.requests) == registrations
    assert living.life.state is State.RUNNING
    living.life.published(Published(image, Provenance(), difference(image, image)))
    await settle()
    assert sum(isinstance(each, BrokerRegistrationRequest) for each in living.requests) == registrations


async def test_no_requests_are_sent_after_a_stop(living: Living) -> None:
    await living.run()
    await living.nursery.stop()
    before = len(living.requests)
    await living.pass_ms(10 * INTERVAL)
    assert (len(living.requests), len(living.timers), living.life.state) == (before, 0, State.SHUTTING_DOWN)


async def test_a_registration_contains_listeners_features_and_directory(tmp_path: Path) -> None:
    """KIP-966, scenario 35: after an unclean stop the registration has no previous broker epoch, so the controller knows it."""
    settings = BrokerSettings(node_id=5, broker_rack="east", cluster_id="cluster", broker_heartbeat_interval_ms=7)
    for epoch in (-1, 12):
        log_dir = LogDir.open(tmp_path, settings, 0)
        listeners = [Endpoint("PLAINTEXT", "h", 9092, 0)]
        one, other = (incarnation_of(settings, log_dir, listeners, os.urandom) for _ in range(2))
        assert one.incarnation_id != other.incarnation_id
        assert (one.broker_id, one.cluster_id, one.rack, one.listeners) == (5, "cluster", "east", listeners)
        assert (one.directories, one.previous_epoch) == ([log_dir.meta.directory_id], epoch)
        log_dir.broker_epoch = 12
        log_dir.close()
    assert timeouts_of(settings) == LifecycleTimeouts(7, 60_000, 30_000)

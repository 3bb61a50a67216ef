"""A broker that finds no controller stops with the reason and releases its directory. Clusters with a controller: tests/scenario."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from ottla.broker.app import Broker
from ottla.broker.cluster.features import METADATA_LEVEL, METADATA_VERSION
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.settings_load import load
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.memory_network import MemoryNetwork
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.broker.storage.formatting import format_directory
from tests.support.broker_cluster import run_in_a_cluster
from tests.support.owned_cluster import OwnedCluster
from tests.support.simulation import TimelessLoop, settle

DIRECTORY = Path("/node1")
WANTED = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "controller:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://node1:9092",
    "log.dir": str(DIRECTORY),
    "initial.broker.registration.timeout.ms": "60000",
}


async def refused(exit_codes: list[int]) -> tuple[str, list[str]]:
    clock, files = VirtualClock(), MemoryFiles()
    format_directory(DIRECTORY, "b3R0bGEtcmVmZXJlbmNlMA", 1, {METADATA_VERSION: METADATA_LEVEL}, clock.now_ms(), files=files)
    environment = Environment(clock, files, MemoryNetwork(), Random(1), InlineThreads)
    broker = Broker(load(WANTED, {}, None).settings, Faults(), environment, exit_now=exit_codes.append)
    starting = asyncio.ensure_future(broker.start())
    for _ in range(70):
        await settle()
        clock.advance(1_000)
    await settle()
    assert starting.done(), "it waits for a controller for ever"
    return str(starting.exception()), [str(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_a_broker_that_cannot_register_stops_after_its_timeout() -> None:
    exit_codes: list[int] = []
    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        why, left = runner.run(refused(exit_codes))
    assert "could not join its cluster" in why
    assert exit_codes == [1]
    assert left == []


def started_with(caplog: pytest.LogCaptureFixture, of_controller: str | None, of_brokers: str | None) -> list[str]:
    """Start a broker with these values of min.insync.replicas; return its log lines about them."""

    async def body(cluster: OwnedCluster) -> None:
        assert cluster.members[1].broker is not None

    controller = {} if of_controller is None else {"min.insync.replicas": of_controller}
    brokers = {} if of_brokers is None else {"min_insync_replicas": of_brokers}
    caplog.clear()
    run_in_a_cluster(lambda: OwnedCluster(1, controller=controller, **brokers), body)
    return [message for message in caplog.messages if "min.insync.replicas" in message]


def test_a_min_insync_replicas_that_the_cluster_overrides_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    (message,) = started_with(caplog, None, "2")
    assert message.startswith("min.insync.replicas=2 in this broker's static configuration has no effect: the cluster's metadata has 1.")
    assert "--entity-default --add-config min.insync.replicas=2" in message


def test_a_min_insync_replicas_equal_to_the_clusters_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert started_with(caplog, "2", "2") == started_with(caplog, "2", None) == started_with(caplog, None, None) == []

"""A cluster of whole brokers under Ottla's own controller, on one event loop with virtual time, with its disks and network in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

from ottla.broker.cluster.image import MetadataImage, PartitionRegistration
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.controller_node import ControllerNode
from ottla.broker.core.settings_load import load
from ottla.broker.core.timers import Timers
from ottla.broker.environment import Environment
from ottla.broker.net.node_client import NodeClient
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.broker.storage.formatting import format_directory
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.messages.k58_envelope import EnvelopeRequest
from ottla.protocol.schema import Message
from tests.support.broker_cluster import CLUSTER_ID, BrokerCluster, run_in_a_cluster
from tests.support.memory_clients import BrokerNetwork

CONTROLLER = 3000
DIRECTORY = Path("/controller")


class ControllerHost:
    """The controller and its disk, which outlives its process. `exit_codes` are the codes with which its process would have ended."""

    def __init__(self, cluster: BrokerCluster, settings: dict[str, str], release: str | None = None) -> None:
        self.exit_codes: list[int] = []
        self.node: ControllerNode | None = None
        self.files = MemoryFiles()
        self._cluster = cluster
        self._network = BrokerNetwork(cluster.network)
        self.settings = {
            "process.roles": "controller",
            "node.id": str(CONTROLLER),
            "log.dir": str(DIRECTORY),
            "listeners": "CONTROLLER://c3000:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "c3000:9093",
            **settings,
        }
        levels = bootstrap_levels({}, release, dynamic_quorum=True)
        at, random_bytes = [VoterEndpoint("CONTROLLER", "c3000", 9093)], cluster.random.randbytes
        format_directory(
            DIRECTORY, CLUSTER_ID, CONTROLLER, levels, 0, is_controller=True, voter_at=at, files=self.files, random_bytes=random_bytes
        )

    async def start(self) -> None:
        cluster = self._cluster
        environment = Environment(cluster.clock, self.files, self._network, Random(cluster.random.getrandbits(64)), InlineThreads)
        self.node = ControllerNode(load(self.settings, {}, None).settings, environment, exit_now=self.exit_codes.append)
        await self.node.start()

    async def stop(self) -> None:
        node, self.node = self.running, None
        await node.stop()

    def crash(self, *, power_loss: bool = False) -> None:
        """Kill the controller, as SIGKILL does; with `power_loss`, also lose what was not synced."""
        node, self.node = self.running, None
        node.crash()
        if power_loss:
            self.files.power_loss()

    @property
    def running(self) -> ControllerNode:
        assert self.node is not None, "the controller does not run"
        return self.node

    @property
    def image(self) -> MetadataImage:
        """The metadata that the controller has committed."""
        return self.running.role.newest.image

    def partition(self, topic: str, index: int = 0) -> PartitionRegistration:
        return self.image.topics[self.image.topic_ids[topic]].partitions[index]


class OwnedCluster(BrokerCluster):
    """A cluster of `size` brokers, with ids from 1. `controller_host` is the controller, formatted for a Kafka release."""

    def __init__(
        self, size: int = 3, seed: int = 1, controller: dict[str, str] | None = None, release: str | None = None, **settings: str
    ) -> None:
        super().__init__(size, seed, **settings)
        self.controller_host = ControllerHost(self, controller or {}, release)

    async def start_controller(self) -> None:
        await self.done(self.controller_host.start())

    async def stop_controller(self) -> None:
        if self.controller_host.node is not None:
            await self.done(self.controller_host.stop())
        assert self.controller_host.exit_codes == []

    def all_timers(self) -> list[Timers]:
        return [*super().all_timers(), *([self.controller_host.node.timers] if self.controller_host.node is not None else [])]

    async def ask_controller(self, request: Message, version: int | None = None) -> Any:
        """Return the controller's response to a request over the network."""
        node = Node(CONTROLLER, "c3000", 9093)
        client = NodeClient(node, self.network, clock=self.clock, timers=self.timers, random=self.random, client_id="test")
        try:
            return await self.done(client.call(request, timeout_ms=10_000, version=version))
        finally:
            client.close()

    async def ask_in_envelope(self, request: Message, principal: bytes, version: int | None = None) -> Any:
        """Return the controller's response to a request that a broker forwards for a client."""
        key, version = request.API_KEY, request.MAX_VERSION if version is None else version
        frame = b"".join(encode_request(key, version, 7, "test", request))[PREFIX_BYTES:]
        answer = await self.ask_controller(EnvelopeRequest(frame, principal, bytes([127, 0, 0, 1])))
        assert answer.error_code == ErrorCode.NONE
        return decode_response(key, version, answer.response_data)[1]


def in_an_owned_cluster(body: Callable[[OwnedCluster], Awaitable[None]], size: int = 3, seed: int = 1, **settings: str) -> None:
    """Run the test in a started cluster, and stop the cluster. No node may have ended its process."""
    run_in_a_cluster(lambda: OwnedCluster(size, seed, **settings), body)


def run_owned(
    body: Callable[[OwnedCluster], Awaitable[None]], size: int, controller: dict[str, str] | None = None, release: str | None = None
) -> None:
    """Run the test like `in_an_owned_cluster`, with settings of the controller, at the level of a Kafka release."""
    run_in_a_cluster(lambda: OwnedCluster(size, controller=controller, release=release), body)

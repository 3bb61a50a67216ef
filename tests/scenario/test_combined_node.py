"""A combined broker and controller with other brokers: on one loop, with a virtual clock and disks in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.process import StartError
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.formatting import format_directory
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.broker_cluster import CLUSTER_ID, BrokerCluster, Member, run_in_a_cluster

COMBINED = {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://node1:9092,CONTROLLER://c3000:9093",
}


class CombinedCluster(BrokerCluster):
    """A cluster whose broker 1 is a combined node: broker and controller."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        first = Member(1, self, COMBINED)
        self.members = {**self.members, 1: first}
        directory, levels = Path("/node1"), bootstrap_levels({}, None, dynamic_quorum=True)
        first.files.remove(directory / "meta.properties")
        at, random_bytes = [VoterEndpoint("CONTROLLER", "c3000", 9093)], self.random.randbytes
        format_directory(directory, CLUSTER_ID, 1, levels, 0, is_controller=True, voter_at=at, files=first.files, random_bytes=random_bytes)

    async def start_controller(self) -> None:
        await self.done(self.members[1].start())

    async def stop_controller(self) -> None:
        pass

    async def start(self) -> None:
        self._driver.start()
        await self.start_controller()
        await self.all(member.start() for number, member in self.members.items() if number != 1)

    async def stop(self) -> None:
        for number in sorted(self.members, reverse=True):
            if self.members[number].broker is not None:
                await self.done(self.members[number].stop())
        await super().stop()


async def create(cluster: CombinedCluster, *replicas: int) -> None:
    wanted = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, list(replicas))])
    (made,) = (await cluster.ask(1, CreateTopicsRequest([wanted]))).topics
    assert made.error_code == 0
    await cluster.until(lambda: all(member.knows("t") for member in cluster.members.values()), "all know the topic")


async def produce(cluster: CombinedCluster, node: int, value: bytes) -> tuple[int, int]:
    data = PartitionProduceData(0, build_batch([SimpleRecord(None, value, 1_000)]))
    answer = await cluster.ask(node, ProduceRequest(None, -1, 60_000, [TopicProduceData("t", partition_data=[data])]), version=12)
    (result,) = answer.responses[0].partition_responses
    return result.error_code, result.base_offset


def test_single_combined_node_keeps_its_records_after_a_power_loss() -> None:
    async def body(cluster: CombinedCluster) -> None:
        await create(cluster, 1)
        assert await produce(cluster, 1, b"x") == (0, 0)
        await cluster.done(cluster.members[1].stop())
        await cluster.done(cluster.members[1].start())
        assert await produce(cluster, 1, b"y") == (0, 1)
        cluster.members[1].crash(power_loss=True)
        await cluster.done(cluster.members[1].start())
        assert cluster.members[1].knows("t")

    run_in_a_cluster(lambda: CombinedCluster(1), body)


def test_other_brokers_replicate_from_a_combined_node_and_lead_while_it_is_down() -> None:
    async def body(cluster: CombinedCluster) -> None:
        await create(cluster, 1, 2, 3)
        assert await produce(cluster, 1, b"x") == (0, 0)
        assert len({member.records_of("t") for member in cluster.members.values()}) == 1
        await cluster.done(cluster.members[1].stop())
        await cluster.until(lambda: cluster.members[2].partition("t").leads, "another leads")
        await cluster.done(cluster.members[1].start())
        await cluster.until(lambda: cluster.members[1].partition("t").log.log_end_offset == 1, "it is back")

    run_in_a_cluster(lambda: CombinedCluster(3), body)


def test_cluster_broker_stops_and_rejoins_under_a_combined_node() -> None:
    async def body(cluster: CombinedCluster) -> None:
        await create(cluster, 2, 1)
        await cluster.done(cluster.members[2].stop())
        await cluster.until(lambda: cluster.members[1].partition("t").leads, "the controller's own broker leads")
        assert await produce(cluster, 1, b"x") == (0, 0)
        await cluster.done(cluster.members[2].start())
        await cluster.until(lambda: cluster.members[2].partition("t").log.log_end_offset == 1, "it has it, too")

    run_in_a_cluster(lambda: CombinedCluster(2), body)


class GrowingCluster(CombinedCluster):
    """A cluster whose node 1 is first standalone, and then a controller and broker that other brokers join."""

    STATIC: Final = {"controller.quorum.voters": "1@c3000:9093", "controller.quorum.bootstrap.servers": ""}

    def __init__(self) -> None:
        super().__init__(3)
        of_a_cluster = dict.fromkeys(("process.roles", "controller.quorum.bootstrap.servers", "controller.listener.names"), "")
        self.standalone = Member(1, self, {**of_a_cluster, "cluster.id": CLUSTER_ID})
        self.standalone.files = MemoryFiles()
        self.grown = {1: Member(1, self, {**COMBINED, **self.STATIC}), **{number: Member(number, self, self.STATIC) for number in (2, 3)}}
        self.members = {1: self.standalone}

    async def grow(self) -> None:
        await self.done(self.members[1].stop())
        self.grown[1].files = self.standalone.files
        self.members = self.grown
        await self.done(self.members[1].start())


def test_a_standalone_node_becomes_a_cluster_of_three_with_its_topics() -> None:
    async def body(cluster: GrowingCluster) -> None:
        (made,) = (await cluster.ask(1, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))).topics
        assert made.error_code == 0
        assert await produce(cluster, 1, b"x") == (0, 0)
        await cluster.grow()
        await cluster.all(cluster.members[number].start() for number in (2, 3))
        moved = ReassignableTopic("t", [ReassignablePartition(0, [1, 2, 3])])
        assert (await cluster.ask(1, AlterPartitionReassignmentsRequest(topics=[moved]))).error_code == 0
        await cluster.until(lambda: all(member.knows("t") for member in cluster.members.values()), "all know the topic")
        await cluster.until(lambda: len(cluster.members[1].partition("t").replica.leadership.registration.isr) == 3, "all are in sync")
        assert await produce(cluster, 1, b"y") == (0, 1)
        assert len({member.records_of("t") for member in cluster.members.values()}) == 1

    run_in_a_cluster(GrowingCluster, body)


def test_a_standalone_directory_is_refused_with_advice_if_no_voters_are_named() -> None:
    async def body(cluster: GrowingCluster) -> None:
        await cluster.done(cluster.members[1].stop())
        cluster.members = {1: Member(1, cluster, COMBINED)}
        cluster.members[1].files = cluster.standalone.files
        with pytest.raises(StartError, match=r"set controller\.quorum\.voters=1@HOST:PORT"):
            await cluster.done(cluster.members[1].start())
        cluster.members = {}

    run_in_a_cluster(GrowingCluster, body)

"""Whole cluster brokers that stop, crash, lose their disks and restart, under a controller in memory, in virtual time.

Numbers in docstrings are Kafka's issues (KAFKA-n) and improvement proposals (KIP-n) about the same failure.
"""

from __future__ import annotations

import asyncio
import errno
import os
from itertools import groupby
from pathlib import Path

import pytest

from ottla.broker.app import StartError
from ottla.broker.cluster.image import ResourceType
from ottla.broker.replication.purgatory import Condition
from ottla.broker.runtime.nodes.link import LinkBroken
from ottla.protocol.messages.k00_produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.broker_cluster import BrokerCluster, in_a_cluster
from tests.support.coroutine_tests import played_by


async def create(cluster: BrokerCluster, *replicas: int) -> None:
    """Create topic t with one partition; the first of `replicas` is preferred."""
    assignment = [CreatableReplicaAssignment(0, list(replicas))]
    answer = await cluster.ask(1, CreateTopicsRequest([CreatableTopic("t", -1, -1, assignment)]))
    assert [each.error_code for each in answer.topics] == [0]
    await cluster.until(lambda: all(member.knows("t") for member in cluster.members.values()), "all know the topic")


async def produce(cluster: BrokerCluster, node: int, value: bytes) -> PartitionProduceResponse:
    batch = build_batch([SimpleRecord(None, value, 1)])
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])
    answer = await cluster.ask(node, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 9)
    response: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return response


async def all_in_sync(cluster: BrokerCluster) -> None:
    everybody = sorted(cluster.members)
    await cluster.until(lambda: sorted(cluster.controller.partition("t").isr) == everybody, "all are in sync")


def registrations(cluster: BrokerCluster, node: int) -> list[BrokerRegistrationRequest]:
    return [
        request for request in cluster.controller.requests if isinstance(request, BrokerRegistrationRequest) and request.broker_id == node
    ]


@played_by(in_a_cluster)
async def test_broker_reports_its_previous_epoch_after_a_clean_stop_and_none_after_a_crash(cluster: BrokerCluster) -> None:
    """KIP-966 and KAFKA-15581, scenario 35: by its previous broker epoch the controller knows which replicas in the ELR may have lost
    records."""
    await create(cluster, 1, 2, 3)
    member, epoch = cluster.members[3], cluster.controller.image.brokers[3].epoch
    await cluster.done(member.stop())
    await cluster.done(member.start())
    await cluster.pass_ms(2_000)
    member.crash(power_loss=True)
    await cluster.until(lambda: cluster.controller.image.brokers[3].fenced, "its session is over")
    await cluster.done(member.start())
    reported = [epoch for epoch, _ in groupby(registration.previous_broker_epoch for registration in registrations(cluster, 3))]
    assert reported == [-1, epoch, -1]
    await all_in_sync(cluster)


@played_by(in_a_cluster)
async def test_stopping_broker_serves_and_follows_metadata_until_the_controller_agrees(cluster: BrokerCluster) -> None:
    """KAFKA-14296 and KAFKA-13858, scenario 37: it gives up its leaderships, follows the new leaders, and may stop when all have seen
    that."""
    await create(cluster, 1, 2, 3)
    assert (await produce(cluster, 1, b"a")).error_code == 0
    member, slow = cluster.members[1], cluster.members[3]
    partition = member.partition("t")
    slow.crash()  # it does not see the controller's decisions until its session expires
    stopping = asyncio.ensure_future(member.stop())
    await cluster.until(lambda: cluster.controller.partition("t").leader == 2, "another leads")
    await cluster.until(lambda: partition.leader_epoch == 1 and not partition.leads, "the stopping broker knows")
    cluster.controller.configure(ResourceType.TOPIC, "t", retention_ms="1000000")
    await cluster.until(lambda: partition.log.config.retention_ms == 1_000_000, "it goes on following metadata")
    assert not stopping.done()
    await cluster.until(stopping.done, "it is let go")
    heartbeats = [each for each in cluster.controller.requests if isinstance(each, BrokerHeartbeatRequest) and each.broker_id == 1]
    assert heartbeats[-1].want_shut_down
    assert (await produce(cluster, 2, b"b")).base_offset == 1
    for node in (1, 3):
        await cluster.done(cluster.members[node].start())
    await all_in_sync(cluster)


@played_by(in_a_cluster)
async def test_stopping_broker_without_a_controller_serves_until_one_is_available(cluster: BrokerCluster) -> None:
    """Scenario 39: a broker has to stop while there is no controller."""
    await create(cluster, 1, 2, 3)
    cluster.controller.node.stop()
    await cluster.pass_ms(1_000)
    partition = cluster.members[1].partition("t")
    stopping = asyncio.ensure_future(cluster.members[1].stop())
    await cluster.pass_ms(3_000)
    assert (stopping.done(), partition.leads) == (False, True)
    batch = build_batch([SimpleRecord(None, b"a", 1)])
    waiting = partition.when(Condition.REPLICATED, partition.append(batch, acks_all=True))
    assert waiting is not None
    await cluster.until(waiting.done, "the followers have it")
    await cluster.controller.start(cluster.network)
    await cluster.until(stopping.done, "it is let go")
    assert (cluster.controller.partition("t").leader, cluster.controller.image.brokers[1].fenced) == (2, True)
    assert cluster.members[2].partition("t").log.high_watermark == 1


@played_by(in_a_cluster)
async def test_broker_that_lost_its_disk_reports_its_replicas_new_directory(cluster: BrokerCluster) -> None:
    """KIP-858, scenarios 19 and 36: a replica in a directory that the controller does not know could never lead."""
    await create(cluster, 1, 2, 3)
    await produce(cluster, 1, b"a")
    member = cluster.members[3]
    before = cluster.controller.partition("t").directories
    member.crash()
    member.format(cluster)
    await cluster.until(lambda: cluster.controller.image.brokers[3].fenced, "its session is over")
    await cluster.done(member.start())
    await all_in_sync(cluster)
    now = cluster.controller.image.brokers[3].directories[0]
    assert now not in before
    await cluster.until(lambda: cluster.controller.partition("t").directories == (*before[:2], now), "the controller knows")
    assert member.records_of("t") == cluster.members[1].records_of("t")


@played_by(in_a_cluster)
async def test_broker_exits_when_its_disk_rejects_a_write_and_another_leads(cluster: BrokerCluster) -> None:
    """Otherwise its partitions would have a leader that rejects all writes, for as long as it sends heartbeats."""
    await create(cluster, 1, 2, 3)
    member = cluster.members[1]
    member.files.room = 0
    with pytest.raises(LinkBroken):
        await produce(cluster, 1, b"a")
    assert member.exit_codes == [1]
    member.crash()
    await cluster.until(lambda: cluster.controller.partition("t").leader == 2, "another leads")
    await cluster.until(lambda: cluster.members[2].partition("t").leads, "it knows")
    assert (await produce(cluster, 2, b"a")).base_offset == 0
    member.files.heal()
    member.exit_codes.clear()
    await cluster.done(member.start())
    await all_in_sync(cluster)
    assert member.records_of("t") == cluster.members[2].records_of("t")


@played_by(in_a_cluster)
async def test_a_broker_that_cannot_read_all_of_its_partitions_does_not_start(cluster: BrokerCluster) -> None:
    """Otherwise it would be elected leader of partitions that it cannot serve."""
    await create(cluster, 1, 2, 3)
    assert (await produce(cluster, 1, b"a")).error_code == 0
    member = cluster.members[1]
    await cluster.done(member.stop())

    def refuse(operation: str, path: Path) -> None:
        if path.parent.name == "t-0":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    member.files.on_call = refuse
    with pytest.raises(StartError, match="'t', 0"):
        await cluster.done(member.start())
    member.broker = None
    member.files.heal()
    await cluster.done(member.start())
    await all_in_sync(cluster)

"""Whole brokers under Ottla's own controller, on one loop, with a virtual clock, and a network and disks in memory."""

from __future__ import annotations

import shutil

import pytest

from ottla.broker.cluster.image import ELR_VERSION, ResourceType
from ottla.broker.configs.config_op import OpType
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.coroutine_tests import played_by
from tests.support.owned_cluster import OwnedCluster, in_an_owned_cluster, run_owned


async def create(cluster: OwnedCluster, topic: str = "t", partitions: int = 1) -> None:
    answer = await cluster.ask(1, CreateTopicsRequest([CreatableTopic(topic, partitions, 3)]))
    assert [each.error_code for each in answer.topics] == [0]
    await cluster.until(lambda: all(member.knows(topic) for member in cluster.members.values()), "all know the topic")


async def produce(cluster: OwnedCluster, node: int, value: bytes, topic: str = "t") -> PartitionProduceResponse:
    data = PartitionProduceData(0, build_batch([SimpleRecord(None, value, 1_000)]))
    answer = await cluster.ask(node, ProduceRequest(None, -1, 60_000, [TopicProduceData(topic, partition_data=[data])]), version=12)
    result: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return result


@played_by(in_an_owned_cluster)
async def test_record_acknowledged_with_acks_all_is_on_every_cluster_broker(cluster: OwnedCluster) -> None:
    await create(cluster)
    leader = cluster.controller_host.partition("t").leader
    answers = [await produce(cluster, leader, bytes([n])) for n in range(3)]
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 1), (0, 2)]
    assert len({member.records_of("t") for member in cluster.members.values()}) == 1


def test_cordoned_broker_gets_no_new_replica_until_it_is_uncordoned(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)  # the brokers' disks are in memory

    async def cordon(cluster: OwnedCluster, op: int) -> None:
        change = AlterConfigsResource(ResourceType.BROKER, "2", [AlterableConfig("cordoned.log.dirs", op, None if op else "/node2")])
        assert [each.error_code for each in (await cluster.ask(2, IncrementalAlterConfigsRequest([change]))).responses] == [0]
        is_cordoned = op == OpType.SET
        await cluster.until(
            lambda: bool(cluster.controller_host.image.brokers[2].cordoned_directories) is is_cordoned, "the controller knows"
        )
        (result,) = (await cluster.ask(2, DescribeLogDirsRequest())).results
        assert result.is_cordoned is is_cordoned

    async def body(cluster: OwnedCluster) -> None:
        await cordon(cluster, OpType.SET)
        refused, made = CreatableTopic("three", 1, 3), CreatableTopic("two", 1, 2)
        answer = await cluster.ask(1, CreateTopicsRequest([refused, made]))
        assert {each.name: each.error_code for each in answer.topics} == {"three": ErrorCode.INVALID_REPLICATION_FACTOR, "two": 0}
        assert sorted(cluster.controller_host.partition("two").replicas) == [1, 3]
        await cordon(cluster, OpType.DELETE)
        await create(cluster)

    in_an_owned_cluster(body)


@pytest.mark.parametrize("release", ["3.3", "3.6", "3.7", "3.9", "4.0", None])
def test_crashed_leader_is_replaced_by_one_with_every_acknowledged_record(release: str | None) -> None:
    async def body(cluster: OwnedCluster) -> None:
        await create(cluster)
        leader = cluster.controller_host.partition("t").leader
        assert (await produce(cluster, leader, b"x")).error_code == ErrorCode.NONE
        cluster.members[leader].crash()
        await cluster.until(lambda: cluster.controller_host.partition("t").leader not in {leader, -1}, "another one leads")
        after = cluster.controller_host.partition("t").leader
        await cluster.until(lambda: cluster.members[after].partition("t").leads, "it knows")
        assert (await produce(cluster, after, b"y")).base_offset == 1
        await cluster.done(cluster.members[leader].start())
        await cluster.until(lambda: sorted(cluster.controller_host.partition("t").isr) == [1, 2, 3], "all are in sync again")
        assert len({member.records_of("t") for member in cluster.members.values()}) == 1

    run_owned(body, 3, release=release)


@played_by(run_owned, 3, release="3.6")
async def test_cluster_is_upgraded_to_the_newest_feature_levels_while_it_serves(cluster: OwnedCluster) -> None:
    await create(cluster)
    update = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("metadata.version", 30), FeatureUpdateKey(ELR_VERSION, 1)])
    answer = await cluster.ask(1, update)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (cluster.controller_host.image.metadata_level, cluster.controller_host.image.features[ELR_VERSION]) == (30, 1)
    leader = cluster.controller_host.partition("t").leader
    cluster.members[leader].crash()
    await cluster.until(lambda: cluster.controller_host.partition("t").leader not in {leader, -1}, "another one leads")
    cluster.controller_host.crash(power_loss=True)
    await cluster.done(cluster.controller_host.start())
    assert cluster.controller_host.image.metadata_level == 30
    await cluster.done(cluster.members[leader].start())
    await cluster.until(lambda: len(cluster.controller_host.partition("t").isr) == 3, "all are in sync again")

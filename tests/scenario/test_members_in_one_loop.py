"""Whole cluster brokers on one loop, with a virtual clock, and a network and disks in memory."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.broker.cluster.features import REGISTERED
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import FeatureLevelRecord
from ottla.broker.core.clock import VirtualClock
from ottla.broker.storage.log_values import LATEST
from ottla.protocol.codec import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.broker_cluster import BrokerCluster, in_a_cluster
from tests.support.coroutine_tests import played_by


async def create(cluster: BrokerCluster, topic: str = "t", partitions: int = 1) -> None:
    answer = await cluster.ask(1, CreateTopicsRequest([CreatableTopic(topic, partitions, 3)]))
    assert [each.error_code for each in answer.topics] == [0]
    await cluster.until(lambda: all(member.knows(topic) for member in cluster.members.values()), "all know the topic")


async def producer_ids(cluster: BrokerCluster, node: int) -> InitProducerIdResponse:
    """Send InitProducerId as a client does, with retries."""
    while (answer := await cluster.ask(node, InitProducerIdRequest(None, 60_000))).error_code:
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await cluster.pass_ms(100)
    return answer


def batch_of(value: bytes, producer_id: int = -1, epoch: int = -1, sequence: int = -1) -> bytes:
    return build_batch(
        [SimpleRecord(None, value, VirtualClock().now_ms())], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


async def produce(cluster: BrokerCluster, node: int, batch: bytes, topic: str = "t", acks: int = -1) -> PartitionProduceResponse:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    answer = await cluster.ask(node, ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data]), 9)
    return answer.responses[0].partition_responses[0]


@played_by(in_a_cluster)
async def test_new_leader_answers_a_retry_with_its_first_offset_and_all_logs_converge(cluster: BrokerCluster) -> None:
    await create(cluster)
    ids = await producer_ids(cluster, 2)
    sent = [batch_of(b"%d" % n, ids.producer_id, ids.producer_epoch, n) for n in range(3)]
    assert [(await produce(cluster, 1, batch)).base_offset for batch in sent] == [0, 1, 2]
    cluster.members[1].crash()
    await cluster.until(lambda: cluster.controller.partition("t").leader == 2, "another leads")
    await cluster.until(lambda: cluster.members[2].partition("t").leads, "it knows")
    retried = await produce(cluster, 2, sent[2])
    assert (retried.error_code, retried.base_offset) == (ErrorCode.NONE, 2)
    assert (await produce(cluster, 2, batch_of(b"3", ids.producer_id, ids.producer_epoch, 3))).base_offset == 3
    await cluster.done(cluster.members[1].start())
    await cluster.until(lambda: sorted(cluster.controller.partition("t").isr) == [1, 2, 3], "all are in sync")
    logs = [member.records_of("t") for member in cluster.members.values()]
    assert logs[0] == logs[1] == logs[2] != b""


@played_by(in_a_cluster)
async def test_cluster_broker_lists_all_finalized_features_like_kafkas_brokers(cluster: BrokerCluster) -> None:
    leader = cluster.controller.quorum.leader
    leader.append_kraft_version(leader.epoch, 1)
    cluster.controller.write(FeatureLevelRecord("share.version", 1))
    await cluster.pass_ms(2_000)
    response = await cluster.ask(2, ApiVersionsRequest("a", "1"), 4)
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    assert levels == {"metadata.version": 30, "transaction.version": 2, "group.version": 1, "share.version": 1, "kraft.version": 1}
    assert {each.name: (each.min_version, each.max_version) for each in response.supported_features} == REGISTERED
    assert response.finalized_features_epoch > 0


@played_by(in_a_cluster)
async def test_crashed_cluster_broker_leaves_no_activity(cluster: BrokerCluster) -> None:
    await create(cluster)
    await produce(cluster, 1, batch_of(b"x"))
    await cluster.pass_ms(5_000)
    member, links = cluster.members[3], len(cluster.controller.links)
    member.crash()
    left = {path: bytes(node.data) for path, node in member.files.nodes.items()}
    cluster.controller.configure(ResourceType.TOPIC, "t", retention_ms="1000000")
    await produce(cluster, 1, batch_of(b"y"), acks=1)
    await cluster.pass_ms(5_000)
    assert {path: bytes(node.data) for path, node in member.files.nodes.items()} == left
    assert len(cluster.controller.links) == links - 2, "of the observer, and of the heartbeats"


@played_by(in_a_cluster)
async def test_producer_id_request_without_a_controller_gets_coordinator_load_in_progress_at_once(cluster: BrokerCluster) -> None:
    cluster.controller.node.stop()
    began_ms = cluster.clock.mono_ms()
    for request in (InitProducerIdRequest(None, 60_000), InitProducerIdRequest(None, 60_000)):
        assert (await cluster.ask(1, request)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert cluster.clock.mono_ms() - began_ms < 1_000
    await cluster.controller.start(cluster.network)
    assert (await producer_ids(cluster, 1)).producer_epoch == 0


def test_isolated_broker_logs_its_isolation_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.broker")

    async def body(cluster: BrokerCluster) -> None:
        await create(cluster, partitions=6)
        caplog.clear()
        cluster.members[1].network.cut_off("c3000", "node2", "node3")
        await cluster.pass_ms(300_000)
        alone = [record for record in caplog.records if record.name.startswith("ottla.broker.runtime")]
        kinds = {(record.name, str(record.args)[:20]) for record in alone}
        assert len(kinds) >= 4, "its channels, its life, the metadata and its leaders"
        assert len(alone) < 100, [record.getMessage() for record in alone]
        caplog.clear()
        cluster.members[1].network.cut.clear()
        await cluster.pass_ms(30_000)
        assert "The cluster's metadata is replicated again (after " in caplog.text
        assert "heartbeat: the controller answers (after " in caplog.text

    in_a_cluster(body)


def test_unanswered_heartbeat_is_repeated_only_after_half_of_the_session_timeout() -> None:
    held: list[BrokerHeartbeatRequest] = []

    async def body(cluster: BrokerCluster) -> None:
        node = cluster.controller.node
        answer = node.answer

        def hold(request: Request) -> Any:
            if not isinstance(request.body, BrokerHeartbeatRequest):
                return answer(request)
            held.append(request.body)
            return None

        node.answer = hold
        await cluster.until(lambda: bool(held), "a heartbeat")
        await cluster.pass_ms(9_900)
        assert len(held) == 1
        await cluster.pass_ms(1_000)
        assert len(held) == 1, "after half of the session it is given up, and sent again after the interval"
        await cluster.pass_ms(1_000)
        assert len(held) == 2
        node.answer = answer
        await cluster.pass_ms(10_000)

    in_a_cluster(body, size=1, broker_heartbeat_interval_ms="1500", broker_session_timeout_ms="20000")


@played_by(in_a_cluster)
async def test_caught_up_broker_reports_no_cordoned_directories(cluster: BrokerCluster) -> None:
    beats = [request for request in cluster.controller.requests if isinstance(request, BrokerHeartbeatRequest) and request.broker_id == 1]
    assert (beats[0].cordoned_log_dirs, beats[-1].cordoned_log_dirs) == (None, [])


async def fetch(cluster: BrokerCluster, node: int, offset: int, rack: str = "") -> PartitionData:
    topic = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)])
    request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[topic], rack_id=rack)
    return (await cluster.ask(node, request, 12)).responses[0].partitions[0]


@played_by(in_a_cluster, replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector")
async def test_consumer_is_redirected_to_the_follower_in_its_rack(cluster: BrokerCluster) -> None:
    await create(cluster)
    await produce(cluster, 1, batch_of(b"x"))
    await cluster.pass_ms(1_000)
    assert (await fetch(cluster, 1, 0, "rack3")).preferred_read_replica == 3
    assert (await fetch(cluster, 1, 0, "rack1")).preferred_read_replica == -1
    read, led = await fetch(cluster, 3, 0, "rack3"), await fetch(cluster, 1, 0)
    assert (read.high_watermark, bytes(read.records)) == (1, bytes(led.records))


async def delete_before(cluster: BrokerCluster, offset: int, timeout_ms: int = 30_000) -> DeleteRecordsPartitionResult:
    request = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)])], timeout_ms)
    return (await cluster.ask(1, request)).topics[0].partitions[0]


@played_by(in_a_cluster)
async def test_delete_records_completes_when_every_live_replica_has_deleted_them(cluster: BrokerCluster) -> None:
    await create(cluster)
    for n in range(3):
        await produce(cluster, 1, batch_of(b"%d" % n))
    answer = await delete_before(cluster, 2)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2)
    assert [member.partition("t").log.log_start_offset for member in cluster.members.values()] == [2, 2, 2]
    cluster.members[3].crash()
    assert (await delete_before(cluster, 3, timeout_ms=1_000)).error_code == ErrorCode.REQUEST_TIMED_OUT, "one that lives has them"
    await cluster.until(lambda: cluster.controller.image.brokers[3].fenced, "it is not alive any more")
    assert (await delete_before(cluster, 3)).low_watermark == 3


def test_new_leader_returns_no_latest_offset_before_its_epoch_is_committed() -> None:
    async def newest(cluster: BrokerCluster) -> tuple[int, int]:
        topic = ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, LATEST)])
        answer = (await cluster.ask(2, ListOffsetsRequest(-1, 0, [topic]), 5)).topics[0].partitions[0]
        return answer.error_code, answer.offset

    async def body(cluster: BrokerCluster) -> None:
        await create(cluster)
        await produce(cluster, 1, batch_of(b"x"))
        await cluster.pass_ms(1_000)
        await produce(cluster, 1, batch_of(b"y"), acks=1)
        await cluster.until(lambda: cluster.members[2].partition("t").log.log_end_offset == 2, "it has both")
        cluster.members[1].crash()
        await cluster.pass_ms(2_000)
        cluster.members[3].crash()  # it stays in the ISR until its session expires, and fetches nothing
        await cluster.until(lambda: cluster.members[2].partition("t").leads, "it leads")
        assert await newest(cluster) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        await cluster.until(lambda: cluster.members[2].partition("t").replica.high_watermark == 2, "all is committed")
        assert await newest(cluster) == (ErrorCode.NONE, 2)

    in_a_cluster(body)


@pytest.mark.parametrize("side", ["leader", "follower"])
@played_by(in_a_cluster, replica_fetch_max_bytes="35000")
async def test_throttled_replica_catches_up_at_the_configured_rate_and_in_sync_replicas_are_not_delayed(
    cluster: BrokerCluster, side: str
) -> None:
    await create(cluster)
    cluster.controller.configure(ResourceType.TOPIC, "t", **{f"{side}_replication_throttled_replicas": "*"})
    cluster.controller.configure(ResourceType.BROKER, "", **{f"{side}_replication_throttled_rate": "10000"})
    cluster.members[3].crash()
    began_ms = cluster.clock.mono_ms()
    for _ in range(10):
        assert (await produce(cluster, 1, batch_of(bytes(30_000)))).error_code == ErrorCode.NONE
    await cluster.until(lambda: 3 not in cluster.controller.partition("t").isr, "one lags")
    assert cluster.clock.mono_ms() - began_ms < 25_000, "broker 2, in sync, had them at once"
    await cluster.pass_ms(30_000)
    await cluster.done(cluster.members[3].start())
    began_ms = cluster.clock.mono_ms()
    await cluster.until(lambda: 3 in cluster.controller.partition("t").isr, "all are in sync")
    assert cluster.clock.mono_ms() - began_ms > 10_000


@played_by(in_a_cluster, replica_fetch_max_bytes="35000", replication_quota_window_num="2", replication_quota_window_size_seconds="30")
async def test_replication_throttle_rate_is_measured_over_the_configured_windows(cluster: BrokerCluster) -> None:
    await create(cluster)
    cluster.controller.configure(ResourceType.TOPIC, "t", leader_replication_throttled_replicas="*")
    cluster.controller.configure(ResourceType.BROKER, "", leader_replication_throttled_rate="1")
    cluster.members[3].crash()
    await produce(cluster, 1, batch_of(bytes(30_000)))
    await cluster.until(lambda: 3 not in cluster.controller.partition("t").isr, "one lags")
    await produce(cluster, 1, batch_of(bytes(30_000)))
    await cluster.done(cluster.members[3].start())
    began_ms = cluster.clock.mono_ms()
    await cluster.until(lambda: 3 in cluster.controller.partition("t").isr, "all are in sync")
    assert 2 * 60_000 <= cluster.clock.mono_ms() - began_ms < 2 * 62_000, "a pause before each of the two batches"

"""Compare Ottla's cluster with Apache Kafka's by ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeLogDirs requests to leaders
and to other brokers."""

from __future__ import annotations

from client_compat.differential.cluster_scenarios.common import create, wait_until_replicated
from client_compat.differential.cluster_scenarios.writing import fill
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import TIME, until
from client_compat.differential.scenarios.fetch import part
from client_compat.differential.scenarios.fetch import request as fetch
from client_compat.differential.scenarios.offsets import request
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from ottla.protocol.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


def by_time(nodes: Nodes) -> None:
    """List offsets with each kind of timestamp and epoch, as a consumer, as a replica and as a debugging consumer."""
    create(nodes, "times", [(1, 2)])
    fill(nodes, "times")
    for version in nodes.range(ApiKey.LIST_OFFSETS):
        for timestamp in (-1, -2, -3, -4, -5, -6, 0, TIME + 11, TIME + 99):
            nodes.everywhere(f"time {timestamp}", request("times", 0, timestamp), version)
        nodes.everywhere("read committed", request("times", 0, -1, isolation=1), version)
        nodes.everywhere("unknown partition", request("times", 9, -1), version)
        for replica in (-2, 2, 3, 9):
            nodes.everywhere(f"as replica {replica}", request("times", 0, -1, replica=replica), version)
        if version >= 4:
            for epoch in (0, 1, 5):
                nodes.everywhere(f"epoch {epoch}", request("times", 0, -1, epoch=epoch), version)


def ends_of_epochs(nodes: Nodes, label: str, topic: str) -> None:
    """Send OffsetForLeaderEpoch for the topic to each running broker, with existing and unknown epochs, as a consumer and as a replica.
    `label` is the beginning of the requests' labels."""
    for version in nodes.range(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        for replica in (-1, -2, 2, 9) if version >= 3 else (-1,):
            for current in (-1, 0, 1, 7):
                for epoch in (0, 1, 7):
                    topics = [
                        OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, current, epoch), OffsetForLeaderPartition(9, -1, 0)])
                    ]
                    title = f"{label}, epoch {epoch}, current {current}, as {replica}"
                    nodes.everywhere(title, OffsetForLeaderEpochRequest(replica, topics), version)


def of_epochs(nodes: Nodes) -> None:
    """Send OffsetForLeaderEpoch to each broker, for a topic whose three batches have the same leader epoch."""
    create(nodes, "ends", [(1, 2)])
    fill(nodes, "ends")
    ends_of_epochs(nodes, "ends", "ends")


def deleted(nodes: Nodes) -> None:
    """Send DeleteRecords to every broker. The leader deletes the records and waits for its replicas; other brokers reject the request."""
    create(nodes, "cut")
    fill(nodes, "cut")
    for version in nodes.range(ApiKey.DELETE_RECORDS):
        for offset in (version + 1, version, 99, -2):
            topics = [DeleteRecordsTopic("cut", [DeleteRecordsPartition(0, offset), DeleteRecordsPartition(9, 0)])]
            for node_id in (2, 3, 1):
                nodes.ask(node_id, f"before {offset}", DeleteRecordsRequest(topics, 5_000), version)
        nowhere = [DeleteRecordsTopic("nowhere", [DeleteRecordsPartition(0, 0)])]
        nodes.everywhere("unknown topic", DeleteRecordsRequest(nowhere, 5_000), version)
        started_at(nodes, "cut", version + 1)
        nodes.everywhere("earliest", request("cut", 0, -2))
    nodes.ask(1, "all", DeleteRecordsRequest([DeleteRecordsTopic("cut", [DeleteRecordsPartition(0, -1)])], 5_000))
    wait_until_replicated(nodes, "cut")


def started_at(nodes: Nodes, topic: str, offset: int) -> None:
    """Wait until the log of every replica of the topic starts at `offset`."""
    for node_id in nodes.living:
        for _ in until(f"{topic} begins at {offset}"):
            (answer,) = nodes.at(node_id).ask_unrecorded(fetch(topic, bytes(16), part(0, 6)), 12).responses[0].partitions
            if answer.log_start_offset == offset:
                break


def log_dirs(nodes: Nodes) -> None:
    """Send DescribeLogDirs to every broker, for a topic with two partitions and for a partition that does not exist."""
    create(nodes, "sizes", [(1, 2), (2, 3)])
    fill(nodes, "sizes")
    for version in nodes.range(ApiKey.DESCRIBE_LOG_DIRS):
        nodes.everywhere("sizes", DescribeLogDirsRequest([DescribableLogDirTopic("sizes", [0, 1, 9])]), version)

"""Compare Ottla with Apache Kafka by ListOffsets and OffsetForLeaderEpoch requests."""

from __future__ import annotations

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import TIME, batch, create, produce
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic


def request(topic: str, partition: int, timestamp: int, *, epoch: int = -1, replica: int = -1, isolation: int = 0) -> ListOffsetsRequest:
    """Return a ListOffsets request with one partition and one timestamp."""
    return ListOffsetsRequest(replica, isolation, [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, epoch, timestamp)])], 5_000)


def by_time(probe: Probe) -> None:
    """List offsets by special and ordinary timestamps at every version, also after the log start moved."""
    create(probe, "times", 2)
    for n, at in enumerate((0, 50, 20, 90)):
        produce(probe, f"batch {n}", "times", batch(b"a", b"b", b"c", at=at))
    for version in probe.range(ApiKey.LIST_OFFSETS):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, TIME, TIME + 1, TIME + 21, TIME + 51, TIME + 53, TIME + 92, TIME + 93):
            label = timestamp if timestamp < TIME else f"+{timestamp - TIME}"
            probe.ask(f"time {label}", request("times", 0, timestamp), version)
            probe.ask(f"time {label}, empty", request("times", 1, timestamp), version)
        probe.ask("read committed end", request("times", 0, -1, isolation=1), version)
        for epoch in (0, 1, 5, -2):
            if version >= 4:
                probe.ask(f"epoch {epoch}", request("times", 0, -1, epoch=epoch), version)
        probe.ask("unknown partition", request("times", 9, -1), version)
        probe.ask("unknown topic", request("nowhere", 0, -1), version)
        probe.ask("as a replica", request("times", 0, -1, replica=2), version)
        probe.ask("debugging", request("times", 0, -1, replica=-2), version)
        twice = [ListOffsetsTopic("times", [ListOffsetsPartition(0, -1, -1), ListOffsetsPartition(0, -1, -2)])]
        probe.ask("a partition twice", ListOffsetsRequest(-1, 0, twice, 5_000), version)
        probe.ask("nothing", ListOffsetsRequest(-1, 0, [], 5_000), version)
    probe.ask("cut", DeleteRecordsRequest([DeleteRecordsTopic("times", [DeleteRecordsPartition(0, 4)])], 5_000))
    for timestamp in (-1, -2, -3, -4, 0, TIME, TIME + 50, TIME + 51):
        probe.ask(f"after the cut: {timestamp}", request("times", 0, timestamp), 7)
    probe.ask("cut to the end", DeleteRecordsRequest([DeleteRecordsTopic("times", [DeleteRecordsPartition(0, -1)])], 5_000))
    for timestamp in (-1, -2, -3, 0):
        probe.ask(f"after the cut to the end: {timestamp}", request("times", 0, timestamp), 7)
    create(probe, "timeless")
    produce(probe, "without timestamps", "timeless", batch(b"a", at=-1 - TIME))
    probe.ask("the greatest of none", request("timeless", 0, -3), 7)


def of_epochs(probe: Probe) -> None:
    """Send OffsetForLeaderEpoch with the current leader epoch and with others."""
    create(probe, "ends", 2)
    produce(probe, "records", "ends", batch(b"a", b"b"))
    for version in probe.range(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        for current in (-1, 0, 1):
            for epoch in (-1, 0, 1, 7):
                for partition in (0, 1, 9):
                    topic = OffsetForLeaderTopic("ends", [OffsetForLeaderPartition(partition, current, epoch)])
                    label = f"epoch {epoch} of {partition}, current {current}"
                    probe.ask(label, OffsetForLeaderEpochRequest(-1, [topic]), version)
        unknown = OffsetForLeaderTopic("nowhere", [OffsetForLeaderPartition(0, -1, 0)])
        probe.ask("unknown topic", OffsetForLeaderEpochRequest(-1, [unknown]), version)

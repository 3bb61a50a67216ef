"""Snapshots of the metadata log: Ottla reads Kafka's and would write the same; Kafka's own dump tool reads Ottla's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.kafka.reference import ReferenceBroker
from client_compat.kafka.tools import Tools
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.image_records import to_records
from ottla.broker.cluster.metadata_loader import MetadataBatch, MetadataLoader
from ottla.broker.cluster.raft_records import KRaftVersionFeature, Voter, VoterEndpoint, VotersRecord
from ottla.broker.cluster.record_frames import decode_record
from ottla.broker.cluster.snapshots import BOOTSTRAP_SNAPSHOT, Snapshot, SnapshotId, read_snapshot, write_snapshot
from ottla.protocol.client import Client
from ottla.protocol.records.batch import BatchHeader, split_batches
from ottla.protocol.records.record import Record, iter_records
from tests.support.apache_kafka import jars_or_skip
from tests.support.group_calls import wait_until
from tests.support.kafka_tools import dumped_metadata, good, metadata_records
from tests.support.metadata_images import made_of
from tests.support.metadata_logs import LogOfMetadata
from tests.support.running_broker import HOST
from tests.support.topic_calls import create


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


def snapshots_in(directory: Path) -> dict[SnapshotId, Path]:
    """Return a node's snapshots by id."""
    found = {SnapshotId.of_file(path.name): path for path in directory.iterdir()}
    return {made: path for made, path in found.items() if made is not None and made.end_offset}


@pytest.fixture(scope="module")
def metadata_dir(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`__cluster_metadata-0` of a Kafka with topics, settings, a quota and a SCRAM user, and a snapshot after every few records."""
    data = tmp_path_factory.mktemp("snapshots") / "data"
    directory = data / "__cluster_metadata-0"
    with ReferenceBroker(data, {"metadata.log.max.record.bytes.between.snapshots": "600"}) as kafka, Client(HOST, kafka.port) as client:
        user = ("--bootstrap-server", kafka.bootstrap, "--alter", "--entity-type", "users", "--entity-name", "ann", "--add-config")
        good(tools.run("kafka-configs", *user, "SCRAM-SHA-256=[iterations=4096,password=secret]"))
        good(tools.run("kafka-configs", *user, "producer_byte_rate=1024"))
        create(client, "gone")
        good(tools.run("kafka-topics", "--bootstrap-server", kafka.bootstrap, "--delete", "--topic", "gone"))
        for n in range(8):
            create(client, f"topic-{n}", 3, {"retention.ms": str(1000 + n)})
        wait_until(lambda: any(holds_topics(path) for path in snapshots_in(directory).values()), "a snapshot with topics is there", 30)
    return directory


def holds_topics(path: Path) -> bool:
    return b"topic-3" in path.read_bytes()


def batches_of(data: bytes) -> Iterator[tuple[BatchHeader, list[Record]]]:
    for pos, header in split_batches(data):
        yield header, list(iter_records(data[pos : pos + header.size_bytes]))


def image_of_the_log(directory: Path, end_offset: int) -> MetadataImage:
    loader = MetadataLoader()
    for path in sorted(directory.glob("*.log")):
        for header, records in batches_of(path.read_bytes()):
            if header.base_offset < end_offset:
                values = [] if header.is_control else [decode_record(record.value or b"")[0] for record in records]
                loader.load([MetadataBatch(header.base_offset, header.last_offset, header.partition_leader_epoch, 0, values)])
    assert loader.published.provenance.offset == end_offset - 1
    return loader.published.image


def without_times(data: bytes) -> list[object]:
    return [
        (
            header._replace(crc=0, base_timestamp=0, max_timestamp=0),
            [(record.offset, record.timestamp_delta, record.key, record.value) for record in records],
        )
        for header, records in batches_of(data)
    ]


def test_kafkas_snapshot_gives_the_image_of_its_log_and_is_rewritten_in_the_same_batches(metadata_dir: Path) -> None:
    snapshots = snapshots_in(metadata_dir)
    assert len(snapshots) > 1
    for made, path in sorted(snapshots.items()):
        data = path.read_bytes()
        snapshot = read_snapshot(data)
        image = made_of(*snapshot.records)
        assert image == image_of_the_log(metadata_dir, made.end_offset)
        assert made_of(*to_records(image)) == image
        assert snapshot.kraft_version == 1
        assert snapshot.voters is not None
        rewritten = b"".join(write_snapshot(snapshot, made.epoch, image.metadata_level, 0))
        assert without_times(rewritten) == without_times(data)
        assert made.file_name == path.name
    assert image.scram
    assert image.client_quotas
    assert image.configs


def test_bootstrap_snapshot_of_kafkas_format_tool_is_decoded(metadata_dir: Path) -> None:
    bootstrap = read_snapshot((metadata_dir / BOOTSTRAP_SNAPSHOT.file_name).read_bytes())
    assert bootstrap.kraft_version == 1
    assert bootstrap.voters is not None
    assert [len(voter.endpoints) for voter in bootstrap.voters.voters] == [1]
    assert made_of(*bootstrap.records).metadata_level == 33


def test_kafkas_dump_tool_reads_every_record_of_ottlas_snapshot(tools: Tools, tmp_path: Path) -> None:
    image = made_of(*LogOfMetadata(7).records(400))
    voters = VotersRecord(0, [Voter(1, b"d" * 16, [VoterEndpoint("CONTROLLER", "h", 9093)], KRaftVersionFeature(0, 1))])
    records = list(to_records(image))
    path = tmp_path / SnapshotId(402, 3).file_name
    path.write_bytes(b"".join(write_snapshot(Snapshot(17, records, 1, voters), 3, 30, 5000)))
    dumped = dumped_metadata(tools, path)
    assert "isvalid: false" not in dumped
    assert "SnapshotHeader" in dumped
    assert '"lastContainedLogTimestamp":17' in dumped
    assert '"kRaftVersion":1' in dumped
    assert '"name":"CONTROLLER","host":"h","port":9093' in dumped
    assert "SnapshotFooter" in dumped
    decoded = metadata_records(dumped)
    assert [words(each["type"]) for each in decoded] == [type(record).__name__.lower() for record in records]
    names = {topic.name for topic in image.topics.values()}
    assert {each["data"]["name"] for each in decoded if each["type"] == "TOPIC_RECORD"} == names


def words(kind: str) -> str:
    """Convert a record type's constant name such as PARTITION_RECORD to partitionrecord."""
    return kind.replace("_", "").lower()

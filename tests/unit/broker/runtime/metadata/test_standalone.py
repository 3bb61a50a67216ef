from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from ottla.broker.cluster.metadata_records import (
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.broker.cluster.record_frames import encode_record
from ottla.broker.cluster.snapshots import Snapshot, write_snapshot
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.controller.delete_topics import TopicRef
from ottla.broker.core.rejected import Rejected
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.files import FILES
from ottla.broker.storage.partition_log import Origin
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.topic_dirs import TopicDir

METADATA = "__cluster_metadata-0"


async def test_a_new_log_starts_with_its_metadata_version(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    assert opened.catalog.features == {
        "metadata.version": 33,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    opened.crash()


async def test_records_are_durable_before_they_are_applied(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    synced: list[bool] = []
    flush = opened.flusher.flush
    opened.flusher.flush = lambda log, done: flush(log, lambda end: (synced.append(len(opened.catalog) == 0), done(end)))  # type: ignore[method-assign,assign,return-value] # listens in
    await opened.decisions.create_topics([NewTopic("t")])
    assert synced == [True]
    opened.crash()


async def test_a_failed_sync_stops_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the topic's record were in the log and not in the catalog, a topic created again would exist twice after a restart."""
    opened = TopicDir(tmp_path)

    def exhausted(fd: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(FILES, "dup", exhausted)
    creating = asyncio.ensure_future(opened.decisions.create_topics([NewTopic("t", 1)]))
    await asyncio.wait_for(opened.failed, 60)
    assert not creating.done()
    creating.cancel()
    monkeypatch.undo()
    opened.crash()


async def test_clients_cannot_reach_the_metadata_log(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    assert opened.partitions.by_name("__cluster_metadata") is None
    assert opened.catalog.topic("__cluster_metadata") is None
    opened.crash()


def write_to(opened: TopicDir, records: list[MetadataRecord]) -> None:
    """Append records to the metadata log, as another process would have."""
    batch = build_batch([SimpleRecord(None, encode_record(record, 0), 1) for record in records])
    opened.controller.voter.raft_log.log.append(batch, origin=Origin.COORDINATOR, leader_epoch=0, now_ms=1)


def snapshot_of_one_topic(topic_id: bytes) -> bytes:
    records: list[MetadataRecord] = [
        FeatureLevelRecord("metadata.version", 25),
        TopicRecord("old", topic_id),
        PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1, leader_epoch=3, partition_epoch=3),
        ConfigRecord(2, "old", "retention.ms", "5"),
        NoOpRecord(),
    ]
    return b"".join(write_snapshot(Snapshot(1, records), 1, 25, 1))


async def with_log_that_begins_later(path: Path) -> None:
    """Make a data directory whose metadata log starts at offset 10, as after a snapshot by Apache Kafka."""
    TopicDir(path).close()
    directory = path / METADATA
    shutil.rmtree(directory)
    directory.mkdir()
    (directory / f"{10:020}.log").write_bytes(b"")
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    (path / "recovery-point-offset-checkpoint").unlink()


async def test_a_log_after_a_kafka_snapshot_is_read_from_the_snapshot(tmp_path: Path) -> None:
    await with_log_that_begins_later(tmp_path)
    (tmp_path / METADATA / f"{4:020}-{1:010}.checkpoint").write_bytes(b"an older one")
    (tmp_path / METADATA / f"{10:020}-{1:010}.checkpoint").write_bytes(snapshot_of_one_topic(b"\x05" * 16))
    opened = TopicDir(tmp_path)
    assert opened.served() == [("old", 0)]
    assert opened.partitions.get("old", 0).log.config.retention_ms == 5
    await opened.decisions.create_topics([NewTopic("new")])
    opened.close()
    again = TopicDir(tmp_path)
    assert again.served() == [("new", 0), ("old", 0)]
    again.crash()


async def test_a_log_without_its_beginning_refuses_the_start(tmp_path: Path) -> None:
    await with_log_that_begins_later(tmp_path)
    with pytest.raises(LogDirRefused, match="begins at offset 10"):
        TopicDir(tmp_path)


async def test_records_that_contradict_each_other_refuse_the_start(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    write_to(opened, [RemoveTopicRecord(b"\x05" * 16)])
    opened.crash()
    with pytest.raises(LogDirRefused, match="does not exist"):
        TopicDir(tmp_path)


async def test_an_open_metadata_transaction_is_aborted_at_the_start(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path)
    await opened.decisions.create_topics([NewTopic("t")])
    topic = opened.catalog.topic("t")
    assert topic is not None
    write_to(opened, [BeginTransactionRecord("a Kafka's"), RemoveTopicRecord(topic.topic_id)])
    opened.crash()
    again = TopicDir(tmp_path)
    assert again.served() == [("t", 0)]
    await again.decisions.delete_topics([TopicRef("t")])
    again.crash()
    last = TopicDir(tmp_path)
    assert last.served() == []
    last.crash()


async def test_catalog_and_controller_agree_after_concurrent_decisions(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path, files=MemoryFiles())
    await asyncio.gather(
        opened.decisions.create_topics([NewTopic("a", 2)]),
        opened.topics.allocate_producer_ids(),
        opened.decisions.create_topics([NewTopic("b")]),
        opened.topics.allocate_producer_ids(),
        opened.decisions.delete_topics([TopicRef(name="a")]),
    )
    assert opened.served() == [("b", 0)]
    assert opened.catalog.image == opened.controller.state.image
    opened.close()


async def test_two_requests_for_producer_ids_at_once_get_two_blocks(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path, files=MemoryFiles())
    first, second = await asyncio.gather(opened.topics.allocate_producer_ids(), opened.topics.allocate_producer_ids())
    assert first.stop == second.start
    opened.close()


async def test_a_started_decision_is_completed_after_its_caller_is_cancelled(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path, files=MemoryFiles())
    gone = asyncio.ensure_future(opened.decisions.create_topics([NewTopic("a")]))
    await asyncio.sleep(0)
    gone.cancel()
    await opened.nursery.stop()
    assert gone.cancelled()
    assert opened.served() == [("a", 0)]
    opened.close()


async def test_a_validate_only_decision_writes_nothing(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path, files=MemoryFiles())
    before = opened.controller.voter.raft_log.log.log_end_offset
    (answer,) = await opened.decisions.create_topics([NewTopic("a")], validate_only=True)
    assert (answer.error, opened.served(), opened.controller.voter.raft_log.log.log_end_offset) == (None, [], before)
    opened.close()


async def test_a_refused_decision_fails_its_caller_and_blocks_no_other(tmp_path: Path) -> None:
    opened = TopicDir(tmp_path, files=MemoryFiles())
    with pytest.raises(Rejected) as refused:
        await opened.decisions.create_topics([NewTopic(f"t-{index}", 1_000) for index in range(200)])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    (made,) = await opened.decisions.create_topics([NewTopic("a")])
    assert made.error is None
    opened.close()

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.broker.storage.log_dir import LogDir, Write
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.support.group_calls import find_coordinator
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, produce


def delete_before(client: Client, topic: str, offset: int, *, partition: int = 0, version: int = 2) -> tuple[int, int]:
    requested = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
    (answer,) = client.call(DeleteRecordsRequest([requested], 1_000), version=version).topics
    (result,) = answer.partitions
    return result.error_code, result.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_every_version_raises_the_log_start(client: Client, version: int) -> None:
    create(client, "t")
    produce(client, "t", b"a", b"b", b"c")
    assert delete_before(client, "t", 2, version=version) == (0, 2)


def test_minus_one_means_the_high_watermark_and_a_lower_offset_changes_nothing(client: Client) -> None:
    create(client, "t")
    produce(client, "t", b"a", b"b", b"c")
    assert delete_before(client, "t", -1) == (0, 3)
    assert delete_before(client, "t", 1) == (0, 3)


@pytest.mark.parametrize("offset", [-2, 4])
def test_an_offset_outside_the_log_is_out_of_range(client: Client, offset: int) -> None:
    create(client, "t")
    produce(client, "t", b"a", b"b", b"c")
    assert delete_before(client, "t", offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_unknown_compacted_and_internal_topics_are_rejected(client: Client) -> None:
    create(client, "compacted", configs={"cleanup.policy": "compact"})
    find_coordinator(client)
    assert delete_before(client, "no", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_before(client, "compacted", 0, partition=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_before(client, "compacted", 0) == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete_before(client, "__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


@pytest.mark.parametrize("kill", [False, True])
def test_deleted_records_stay_deleted_after_a_restart(broker: RunningBroker, kill: bool) -> None:
    with broker.client() as client:
        create(client, "t")
        produce(client, "t", b"a", b"b", b"c")
        assert delete_before(client, "t", 2) == (0, 2)
    broker.restart(kill=kill)
    with broker.client() as client:
        assert delete_before(client, "t", 0) == (0, 2)


def test_other_clients_are_served_while_the_checkpoint_is_written(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, served, checkpoint = threading.Event(), threading.Event(), LogDir.log_start_checkpoint

    def slow(log_dir: LogDir) -> Write:
        write = checkpoint(log_dir)

        def wait_and_write() -> None:
            begun.set()
            assert served.wait(30)
            write()

        return wait_and_write

    with broker.client() as client, broker.client() as other, ThreadPoolExecutor(1) as thread, monkeypatch.context() as patched:
        create(client, "t")
        produce(client, "t", b"a", b"b", b"c")
        patched.setattr(LogDir, "log_start_checkpoint", slow)
        deleting = thread.submit(delete_before, client, "t", 2)
        assert begun.wait(30)
        assert delete_before(other, "t", 9) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert not deleting.done()
        served.set()
        assert deleting.result() == (0, 2)


def test_a_checkpoint_that_cannot_be_written_is_a_storage_error(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError("the disk is full")

    with broker.client() as client, monkeypatch.context() as patched:
        create(client, "t")
        produce(client, "t", b"a", b"b")
        patched.setattr(LogDir, "log_start_checkpoint", lambda log_dir: full)
        assert delete_before(client, "t", 1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_the_last_entry_of_a_partition_named_twice_counts(client: Client) -> None:
    create(client, "t", 2)
    produce(client, "t", b"a", b"b", b"c")
    entries = [("t", [(0, 3), (1, 0)]), ("none", []), ("t", [(0, 99), (0, 1)])]
    topics = [DeleteRecordsTopic(name, [DeleteRecordsPartition(*each) for each in parts]) for name, parts in entries]
    (topic,) = client.call(DeleteRecordsRequest(topics, 1_000)).topics
    results = [(each.partition_index, each.error_code, each.low_watermark) for each in topic.partitions]
    assert (topic.name, results) == ("t", [(0, 0, 1), (1, 0, 0)])

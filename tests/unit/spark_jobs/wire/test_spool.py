"""Fetched logs as files: the broker's bytes, continued after an interruption, and with gaps reported."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.testing.in_process import InProcessBroker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import PartitionData
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.wire.cluster import Cluster
from ottla.spark_jobs.wire.spool import NotThisCluster, spool
from ottla.spark_jobs.wire.throttle import Throttle
from tests.support.renaming_proxy import RenamingProxy
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, delete, produce

LOG = Path("t-0") / f"{0:020d}.log"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data") as running, running.client() as client:
        create(client, "t")
        for number in range(5):
            produce(client, "t", b"%d" % number, b"x" * 100)
        yield running


def url(broker: InProcessBroker) -> str:
    return f"kafka://{broker.bootstrap}"


def kept(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted((directory / "t-0").glob("*.log")))


class Interrupted(Exception):
    pass


class Impatient(Throttle):
    """A throttle that interrupts the fetching after `answers` responses."""

    def __init__(self, answers: int) -> None:
        super().__init__(0)
        self._left = answers
        self.took_bytes = 0

    def took(self, count: int) -> None:
        self.took_bytes += count
        self._left -= 1
        if self._left < 0:
            raise Interrupted


def test_spooled_files_equal_the_brokers_byte_for_byte(broker: RunningBroker, tmp_path: Path) -> None:
    notes, problems = spool(url(broker), tmp_path / "spool")
    assert kept(tmp_path / "spool") == (broker.data_dir / LOG).read_bytes()
    assert problems == []
    assert len(notes) == 1


@pytest.mark.parametrize("left_over", [0, 1, 30, 70])
def test_interrupted_spool_continues_after_its_last_complete_batch(left_over: int, broker: RunningBroker, tmp_path: Path) -> None:
    whole = (broker.data_dir / LOG).read_bytes()
    spool(url(broker), tmp_path / "spool")
    size = len(whole) // 5
    (tmp_path / "spool" / LOG).write_bytes(whole[: 2 * size + left_over])
    counting = Impatient(10)
    spool(url(broker), tmp_path / "spool", throttle=counting)
    assert kept(tmp_path / "spool") == whole
    assert counting.took_bytes == 3 * size


def test_interrupted_spool_is_completed_by_the_next_run(broker: RunningBroker, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        spool(url(broker), tmp_path / "spool", throttle=Impatient(0))
    spool(url(broker), tmp_path / "spool")
    assert kept(tmp_path / "spool") == (broker.data_dir / LOG).read_bytes()


def test_later_appends_are_spooled_by_the_next_run_into_further_files(broker: RunningBroker, tmp_path: Path) -> None:
    spool(url(broker), tmp_path / "spool", segment_bytes=200)
    with broker.client() as client:
        produce(client, "t", b"later")
    spool(url(broker), tmp_path / "spool", segment_bytes=200)
    assert kept(tmp_path / "spool") == (broker.data_dir / LOG).read_bytes()
    assert [segment.base_offset for segment in find_logs(tmp_path / "spool").segments] == [0, 10]


def test_records_removed_before_they_were_spooled_are_noted_and_not_judged(broker: RunningBroker, tmp_path: Path) -> None:
    spool(url(broker), tmp_path / "spool")
    with broker.client() as client:
        for number in range(3):
            produce(client, "t", b"%d" % number)
        topics = [DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=12)])]
        client.call(DeleteRecordsRequest(topics=topics, timeout_ms=10_000))
    notes, _ = spool(url(broker), tmp_path / "spool")
    assert notes[1:] == ["t-0: offsets 10 to 11 were removed before they were fetched; judged from there on"]
    assert {segment.log_start_offset for segment in find_logs(tmp_path / "spool").segments} == {12}


def test_offsets_that_the_broker_does_not_return_are_a_problem_of_every_run(
    broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = Cluster.fetch

    def refusing(self: Cluster, partition: tuple[str, int], offset: int, _max_bytes: int) -> PartitionData:
        refused = 4 <= offset < end
        return PartitionData(error_code=ErrorCode.CORRUPT_MESSAGE) if refused else fetch(self, partition, offset, 1)

    monkeypatch.setattr(Cluster, "fetch", refusing)
    with broker.client() as client:
        produce(client, "t", b"10", b"11")
    at_the_end = "t-0: offsets 4 to 11 could not be fetched: the broker answers CORRUPT_MESSAGE"
    end = 12
    for _ in range(2):
        assert spool(url(broker), tmp_path / "spool")[1] == [at_the_end]
    end = 6
    for _ in range(2):
        (hole,) = spool(url(broker), tmp_path / "spool")[1]
        assert hole.startswith("t-0: offsets 4 to 5 could not be fetched: the broker answers CORRUPT_MESSAGE; to fetch them again, remove")
    shutil.rmtree(tmp_path / "spool" / "t-0")
    end = 0
    assert spool(url(broker), tmp_path / "spool")[1] == []
    assert kept(tmp_path / "spool") == (broker.data_dir / LOG).read_bytes()


def test_a_note_is_not_repeated_by_a_run_that_finds_nothing_new(broker: RunningBroker, tmp_path: Path) -> None:
    spool(url(broker), tmp_path / "spool")
    with broker.client() as client:
        produce(client, "t", b"10", b"11")
        topics = [DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=12)])]
        client.call(DeleteRecordsRequest(topics=topics, timeout_ms=10_000))
    for _ in range(3):
        notes, _ = spool(url(broker), tmp_path / "spool")
        assert notes[1:] == ["t-0: offsets 10 to 11 were removed before they were fetched; judged from there on"]


def test_a_log_that_is_shorter_than_its_files_is_noted_once(broker: RunningBroker, tmp_path: Path) -> None:
    spool(url(broker), tmp_path / "spool")
    with broker.client() as client:
        delete(client, "t")
        create(client, "t")
        produce(client, "t", b"0")
    for _ in range(3):
        notes, _ = spool(url(broker), tmp_path / "spool")
        assert notes[1:] == ["t-0: offsets from 1 on are kept here and gone from the cluster"]


def test_spooled_records_that_the_broker_deletes_later_are_kept_and_judged(broker: RunningBroker, tmp_path: Path) -> None:
    spool(url(broker), tmp_path / "spool")
    with broker.client() as client:
        topics = [DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=6)])]
        client.call(DeleteRecordsRequest(topics=topics, timeout_ms=10_000))
    spool(url(broker), tmp_path / "spool")
    assert {segment.log_start_offset for segment in find_logs(tmp_path / "spool").segments} == {0}


def test_compacted_topic_is_marked_as_compacted_in_the_spool(broker: RunningBroker, tmp_path: Path) -> None:
    broker.topics.create("c", configs={"cleanup.policy": "compact"})
    spool(url(broker), tmp_path / "spool")
    assert {segment.topic: segment.cleaned_to for segment in find_logs(tmp_path / "spool").segments} == {"c": 2**63 - 1, "t": 0}


def test_spool_directory_of_another_cluster_or_with_other_files_is_rejected(broker: RunningBroker, tmp_path: Path) -> None:
    spool(url(broker), tmp_path / "spool")
    with RunningBroker(tmp_path / "other") as other, pytest.raises(NotThisCluster, match="holds logs of cluster"):
        spool(url(other), tmp_path / "spool")
    with pytest.raises(NotThisCluster, match="not empty"):
        spool(url(broker), tmp_path / "data")


@pytest.mark.parametrize("name", [b"../x/y", b"/tmp/y", b"\x1b[31mx", b"a\x00\x00\x00\x00\x00"])
def test_a_topic_name_that_is_a_path_is_a_problem_and_writes_nothing(name: bytes, tmp_path: Path) -> None:
    with RenamingProxy(b"tttttt"[: len(name)], name) as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        with RunningBroker(tmp_path / "data", advertised) as running, running.client() as client:
            create(client, "tttttt")
            create(client, "good")
            produce(client, "tttttt", b"1")
            produce(client, "good", b"1")
            proxy.upstream = running.port
            before = sorted(tmp_path.rglob("*"))
            _, problems = spool(f"kafka://127.0.0.1:{proxy.port}", tmp_path / "spool")
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")} - {path.relative_to(tmp_path) for path in before}
    assert {path.parts[0] for path in written} <= {"spool", "data"}
    assert sorted(path.name for path in (tmp_path / "spool").iterdir() if path.is_dir()) == ["good-0"]
    (problem,) = problems
    assert "not read" in problem
    assert problem.isprintable()


def test_symlink_in_place_of_a_partition_directory_is_not_followed(broker: RunningBroker, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    spool(url(broker), tmp_path / "spool")
    for file in (tmp_path / "spool" / "t-0").iterdir():
        file.unlink()
    (tmp_path / "spool" / "t-0").rmdir()
    (tmp_path / "spool" / "t-0").symlink_to(outside)
    _, problems = spool(url(broker), tmp_path / "spool")
    assert list(outside.iterdir()) == []
    assert problems == ["'t-0' is no name of a partition's directory: not fetched"]

"""A data directory: lock, identity, checkpoints, and partitions after a clean stop, a kill and a failed write."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.dir_lock import DirLock
from ottla.broker.storage.errors import LogDirLocked, LogDirRefused
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.partition_metadata import NO_TOPIC_ID
from ottla.broker.storage.producer_state import Origin
from ottla.protocol.error_codes import ErrorCode
from tests.support.logs import NOW_MS, TOPIC_ID, batch, run_due_deletions


def opened(path: Path, settings: BrokerSettings | None = None, **more: object) -> LogDir:
    return LogDir.open(path, settings or BrokerSettings(), NOW_MS, **more)  # type: ignore[arg-type]  # files and random_bytes


def append(log: PartitionLog, data: bytes | None = None) -> None:
    log.append(data or batch(), origin=Origin.CLIENT, leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


def filled(path: Path, **more: object) -> LogDir:
    log_dir = opened(path, **more)
    for index in range(3):
        log = log_dir.create_log("topic", index, TOPIC_ID, LogConfig())
        for sequence in range(index + 1):
            append(log, batch(7, 0, sequence))
    return log_dir


def ends(log_dir: LogDir) -> dict[tuple[str, int], int]:
    return {key: log.log_end_offset for key, log in log_dir.logs.items()}


# --- who may use it --------------------------------------------------------------------------------------------------------


def test_a_second_broker_is_refused_by_the_directorys_name(tmp_path: Path) -> None:
    first = opened(tmp_path)
    for _ in range(2):  # the refused attempt must not take the first one's lock along
        with pytest.raises(LogDirLocked, match=str(tmp_path)):
            opened(tmp_path)
    first.close()
    opened(tmp_path).close()


@pytest.mark.parametrize(("topic", "partition"), [("../x", 0), ("a/b", 0), ("..", 1), ("t", -1), ("t", 2**31)])
def test_a_log_name_outside_the_directory_is_rejected(tmp_path: Path, topic: str, partition: int) -> None:
    log_dir = filled(tmp_path / "data")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Rejected, match="not a valid name of a partition's directory"):
        log_dir.create_log(topic, partition, bytes(16), LogConfig(), at_once=True)
    assert sorted(tmp_path.rglob("*")) == before
    log_dir.close(clean=True)


def test_a_java_file_lock_of_another_process_is_respected(tmp_path: Path) -> None:
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(LogDirLocked):
            opened(tmp_path)
        other.stdin.close()
        other.wait()
    opened(tmp_path).close()


def test_releasing_a_lock_twice_closes_no_other_descriptor(tmp_path: Path) -> None:
    lock = DirLock(tmp_path)
    lock.release()
    with (tmp_path / "other").open("wb") as other:  # has the lock's old number
        lock.release()
        other.write(b"x")


def test_a_lock_file_that_cannot_be_created_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(LogDirRefused, match=r"none/\.lock"):
        DirLock(tmp_path / "none")


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LogDirRefused, match="file"):
        opened(tmp_path / "file")


def test_the_directory_id_is_generated_once_and_kept(tmp_path: Path) -> None:
    first = opened(tmp_path)
    meta = first.meta
    first.close()
    again = opened(tmp_path)
    assert again.meta == meta
    assert (again.cluster_id, meta.node_id, len(meta.cluster_id)) == (meta.cluster_id, 1, 22)
    again.close()


def test_an_empty_cluster_id_counts_as_missing_at_every_start(tmp_path: Path) -> None:
    first = opened(tmp_path, BrokerSettings(cluster_id=""))
    first.close()
    again = opened(tmp_path, BrokerSettings(cluster_id=""))
    assert again.cluster_id == first.cluster_id != ""
    again.close()


@pytest.mark.parametrize(
    ("settings", "says"),
    [(BrokerSettings(node_id=2), "node 1"), (BrokerSettings(cluster_id="other"), "cluster.id is other")],
)
def test_another_nodes_or_clusters_directory_is_refused_and_not_changed(tmp_path: Path, settings: BrokerSettings, says: str) -> None:
    filled(tmp_path).close()
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(LogDirRefused, match=says):
        opened(tmp_path, settings)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("content", [b"", b"version=0\n", b"version=1\nnode.id=1\n", b"version=1\ncluster.id=a\nnode.id=x\n"])
def test_a_damaged_meta_properties_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "meta.properties").write_bytes(content)
    with pytest.raises(LogDirRefused, match=r"meta\.properties"):
        opened(tmp_path)


def test_a_cluster_broker_needs_a_formatted_directory(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(LogDirRefused, match=r"is not formatted, it has no meta\.properties: run `ottla format"):
            opened(tmp_path, BrokerSettings(process_roles=("broker",)))
    opened(tmp_path).close()
    opened(tmp_path, BrokerSettings(process_roles=("broker",))).close()


def test_a_meta_properties_that_kafka_wrote_is_read(tmp_path: Path) -> None:
    text = (
        "#\n#Fri Nov 14 22:13:20 UTC 2023\nnode.id=1\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
    )
    (tmp_path / "meta.properties").write_text(text)
    log_dir = opened(tmp_path)
    assert (log_dir.cluster_id, log_dir.meta.directory_id) == ("MkU3OEVBNTcwNTJENDM2Qg", TOPIC_ID)
    log_dir.close()


def test_a_directory_of_an_older_kafka_gets_a_directory_id_once(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("node.id=1\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    log_dir = opened(tmp_path)
    given = log_dir.meta
    assert (given.cluster_id, given.node_id) == ("MkU3OEVBNTcwNTJENDM2Qg", 1)
    assert given.directory_id != bytes(16)
    log_dir.close()
    log_dir = opened(tmp_path)
    assert log_dir.meta == given
    log_dir.close()


# --- stops and starts --------------------------------------------------------------------------------------------------------


def test_a_clean_stops_marker_is_removed_while_the_broker_runs(tmp_path: Path) -> None:
    filled(tmp_path).close()
    again = opened(tmp_path)
    assert again.was_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert ends(again) == {("topic", 0): 1, ("topic", 1): 2, ("topic", 2): 3}
    assert {log.high_watermark for log in again.logs.values()} == {1, 2, 3}
    assert {log.recovery_point for log in again.logs.values()} == {1, 2, 3}
    assert {log.topic_id for log in again.logs.values()} == {TOPIC_ID}
    assert again.findings == []
    again.close()


def test_a_clean_stop_stores_the_broker_epoch_for_the_next_start(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log_dir.broker_epoch = 77
    log_dir.close()
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":77}'
    log_dir = opened(tmp_path)
    assert (log_dir.previous_broker_epoch, log_dir.broker_epoch) == (77, -1)
    log_dir.close(clean=False)
    assert opened(tmp_path).previous_broker_epoch == -1


@pytest.mark.parametrize("marker", [b"", b"{", b"[]", b'{"version":0}', b'{"brokerEpoch":"x"}'])
def test_a_clean_stop_without_a_broker_epoch_is_clean(tmp_path: Path, marker: bytes) -> None:
    opened(tmp_path).close()
    (tmp_path / ".kafka_cleanshutdown").write_bytes(marker)
    log_dir = opened(tmp_path)
    assert (log_dir.was_clean, log_dir.previous_broker_epoch) == (True, -1)
    log_dir.close()


def test_a_crash_is_detected_and_every_partition_recovered(tmp_path: Path) -> None:
    filled(tmp_path).close(clean=False)
    again = opened(tmp_path)
    assert not again.was_clean
    assert ends(again) == {("topic", 0): 1, ("topic", 1): 2, ("topic", 2): 3}
    again.close()


def test_a_crash_during_the_start_after_a_clean_stop_is_a_crash(tmp_path: Path) -> None:
    filled(tmp_path).close()
    opened(tmp_path).close(clean=False)
    again = opened(tmp_path)
    assert not again.was_clean
    again.close()


def test_a_clean_stop_survives_a_power_loss(tmp_path: Path) -> None:
    files = MemoryFiles()
    filled(tmp_path, files=files).close()
    files.power_loss()
    again = opened(tmp_path, files=files)
    assert again.was_clean
    assert again.findings == []
    assert ends(again) == {("topic", 0): 1, ("topic", 1): 2, ("topic", 2): 3}
    assert {log.topic_id for log in again.logs.values()} == {TOPIC_ID}
    again.close()


def test_checkpoints_restore_log_start_and_high_watermark_after_a_crash(tmp_path: Path) -> None:
    log_dir = filled(tmp_path)
    log_dir.logs["topic", 2].delete_records_before(2)
    log_dir.logs["topic", 2].flush()
    log_dir.recovery_point_checkpoint()()
    log_dir.log_start_checkpoint()()
    log_dir.high_watermark_checkpoint()()
    log_dir.close(clean=False)
    log = opened(tmp_path).logs["topic", 2]
    assert (log.log_start_offset, log.high_watermark, log.recovery_point) == (2, 3, 3)
    log.release()


def test_a_checkpoint_of_earlier_offsets_does_not_replace_a_later_one(tmp_path: Path) -> None:
    log_dir = filled(tmp_path)
    earlier = log_dir.high_watermark_checkpoint()
    append(log_dir.logs["topic", 0])
    log_dir.logs["topic", 0].advance_high_watermark(log_dir.logs["topic", 0].log_end_offset)
    log_dir.high_watermark_checkpoint()()
    written = (tmp_path / "replication-offset-checkpoint").read_text()
    earlier()
    assert (tmp_path / "replication-offset-checkpoint").read_text() == written
    log_dir.close()


def test_a_recreated_topic_does_not_use_old_checkpoints(tmp_path: Path) -> None:
    log_dir = filled(tmp_path)
    old = log_dir.logs["topic", 2]
    old.delete_records_before(2)
    old.flush()
    log_dir.first_dirty_offsets["topic", 2] = 3
    checkpoints = (
        log_dir.recovery_point_checkpoint,
        log_dir.log_start_checkpoint,
        log_dir.high_watermark_checkpoint,
        log_dir.cleaner_checkpoint,
    )
    for checkpoint in checkpoints:
        checkpoint()()
    log_dir.delete_log("topic", 2)
    log_dir.removal_checkpoint()()
    append(log_dir.create_log("topic", 2, b"2" * 16, LogConfig()))
    log_dir.close(clean=False)
    again = opened(tmp_path)
    log = again.logs["topic", 2]
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point, again.first_dirty_offsets) == (0, 1, 0, {})
    assert log.high_watermark == 0
    again.close()


def test_the_cleaner_checkpoint_survives_a_crash(tmp_path: Path) -> None:
    log_dir = filled(tmp_path)
    log_dir.logs["topic", 1].roll(NOW_MS)
    log_dir.first_dirty_offsets["topic", 1] = 2
    log_dir.cleaner_checkpoint()()
    log_dir.close(clean=False)
    again = opened(tmp_path)
    assert again.first_dirty_offsets == {("topic", 1): 2}
    again.close()


def test_an_unreadable_partitions_checkpoint_entries_are_kept(tmp_path: Path) -> None:
    files = MemoryFiles()
    log_dir = filled(tmp_path, files=files)
    log_dir.logs["topic", 2].delete_records_before(2)
    log_dir.close()

    def fail(operation: str, path: Path) -> None:
        if path.parent.name == "topic-2":
            raise OSError(errno.EIO, "failed here", str(path))

    files.on_call = fail
    crippled = opened(tmp_path, files=files)
    crippled.recovery_point_checkpoint()()
    crippled.log_start_checkpoint()()
    crippled.close()
    files.heal()
    log = opened(tmp_path, files=files).logs["topic", 2]
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (2, 3, 3)


def test_the_files_of_a_failed_removal_are_not_used_by_the_new_partition(tmp_path: Path) -> None:
    files = MemoryFiles()
    log_dir = filled(tmp_path, files=files)

    def fail(operation: str, path: Path) -> None:
        if operation == "rename":
            raise OSError(errno.EIO, "failed here", str(path))

    files.on_call = fail
    with pytest.raises(Rejected, match="topic-2"):
        log_dir.delete_log("topic", 2)
    with pytest.raises(Rejected, match="topic-2"):
        log_dir.create_log("topic", 2, b"2" * 16, LogConfig())
    files.heal()
    assert log_dir.create_log("topic", 2, b"2" * 16, LogConfig(), at_once=True).log_end_offset == 0
    run_due_deletions(log_dir, NOW_MS)
    run_due_deletions(log_dir, NOW_MS + 10**9)
    assert {entry.name for entry in files.scan(tmp_path) if entry.is_dir} == {"topic-0", "topic-1", "topic-2"}
    log_dir.close()


def test_an_unchanged_checkpoint_is_not_written_again(tmp_path: Path) -> None:
    log_dir = filled(tmp_path)
    log_dir.high_watermark_checkpoint()()
    path = tmp_path / "replication-offset-checkpoint"
    path.unlink()
    log_dir.high_watermark_checkpoint()()
    assert not path.exists()
    append(log_dir.logs["topic", 0])
    log_dir.high_watermark_checkpoint()()
    assert path.exists()
    log_dir.close()


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication", "cleaner"])
@pytest.mark.parametrize("content", [b"x", b"0\n5\n", b"0\n1\ntopic 0\n", b"1\n0\n", b"\xff\xfe"], ids=repr)
def test_a_corrupt_checkpoint_is_reported_by_name_and_loses_no_record(tmp_path: Path, name: str, content: bytes) -> None:
    filled(tmp_path).close()
    path = tmp_path / f"{name}-offset-checkpoint"
    path.write_bytes(content)
    again = opened(tmp_path)
    assert [f.file for f in again.findings] == [path]
    assert ends(again) == {("topic", 0): 1, ("topic", 1): 2, ("topic", 2): 3}
    again.close()
    assert opened_findings(tmp_path) == []


def opened_findings(path: Path) -> list[object]:
    log_dir = opened(path)
    log_dir.close()
    return list(log_dir.findings)


@pytest.mark.parametrize("content", [None, b"", b"version: 0\n", b"version: 0\ntopic_id: short", b"version: 7\ntopic_id: x"], ids=repr)
def test_a_partition_without_its_metadata_is_served_without_a_topic_id(tmp_path: Path, content: bytes | None) -> None:
    filled(tmp_path).close()
    path = tmp_path / "topic-1" / "partition.metadata"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    again = opened(tmp_path)
    assert [f.file for f in again.findings] == [path]
    assert again.logs["topic", 1].topic_id == NO_TOPIC_ID
    assert again.logs["topic", 1].log_end_offset == 2
    again.close()


def test_one_partition_that_the_disk_refuses_leaves_the_others_served(tmp_path: Path) -> None:
    files = MemoryFiles()
    filled(tmp_path, files=files).close()

    def fail(operation: str, path: Path) -> None:
        if path.parent.name == "topic-1" and path.suffix == ".log":
            raise OSError(errno.EIO, "failed here", str(path))

    files.on_call = fail
    again = opened(tmp_path, files=files)
    assert set(again.logs) == {("topic", 0), ("topic", 2)}
    assert set(again.failed) == {("topic", 1)}
    files.heal()
    again.close()
    assert not files.exists(tmp_path / ".kafka_cleanshutdown")


def test_a_stop_that_cannot_sync_is_not_clean(tmp_path: Path) -> None:
    files = MemoryFiles()
    log_dir = filled(tmp_path, files=files)

    def fail(operation: str, path: Path) -> None:
        if operation == "fsync" and path.parent.name == "topic-1":
            raise OSError(errno.EIO, "failed here", str(path))

    files.on_call = fail
    log_dir.close()
    assert not files.exists(tmp_path / ".kafka_cleanshutdown")
    assert opened(tmp_path, files=files).was_clean is False


def test_a_directory_on_a_full_disk_is_refused_by_name(tmp_path: Path) -> None:
    files = MemoryFiles()
    files.room = 0
    with pytest.raises(LogDirRefused, match=r"meta\.properties\.tmp.*No space"):
        opened(tmp_path, files=files)


# --- partitions ----------------------------------------------------------------------------------------------------------------


def test_a_deleted_partition_is_renamed_at_once_and_removed_after_its_delay(tmp_path: Path) -> None:
    settings = BrokerSettings(log_segment_delete_delay_ms=500)
    log_dir = filled(tmp_path)
    log_dir.settings = settings
    log = log_dir.logs["topic", 1]
    log_dir.delete_log("topic", 1)
    (aside,) = tmp_path.glob("topic-1.*-delete")
    assert not (tmp_path / "topic-1").exists()
    with pytest.raises(Rejected) as caught:
        append(log)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    run_due_deletions(log_dir, NOW_MS)
    run_due_deletions(log_dir, NOW_MS + 499)
    assert aside.exists()
    run_due_deletions(log_dir, NOW_MS + 500)
    assert not aside.exists()
    log_dir.create_log("topic", 1, TOPIC_ID, LogConfig())
    log_dir.close()


def test_a_clock_that_went_back_does_not_delay_a_removal(tmp_path: Path) -> None:
    log_dir = filled(tmp_path)
    log_dir.delete_log("topic", 1)
    run_due_deletions(log_dir, NOW_MS)
    run_due_deletions(log_dir, NOW_MS - 10**9)
    assert list(tmp_path.glob("*-delete")) == []
    log_dir.close()


def test_an_interrupted_deletion_is_finished_later(tmp_path: Path) -> None:
    log_dir = filled(tmp_path)
    log_dir.delete_log("topic", 1)
    log_dir.close(clean=False)
    again = opened(tmp_path, BrokerSettings(log_segment_delete_delay_ms=0))
    assert ("topic", 1) not in again.logs
    run_due_deletions(again, NOW_MS)
    assert list(tmp_path.glob("*-delete")) == []
    again.close()


def test_foreign_directories_are_not_changed(tmp_path: Path) -> None:
    for name in ("photos-2024", "photos-to-delete", "to-delete", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.jpg").write_bytes(b"one")
    log_dir = opened(tmp_path, BrokerSettings(log_segment_delete_delay_ms=0))
    assert log_dir.logs == {}
    assert [finding.file.name for finding in log_dir.findings] == ["partition.metadata", "photos-2024"]
    with pytest.raises(Rejected, match="photos-2024 exists already"):
        log_dir.create_log("photos", 2024, TOPIC_ID, LogConfig())
    run_due_deletions(log_dir, NOW_MS)
    log_dir.close()
    for name in ("photos-2024", "photos-to-delete", "to-delete", "notes"):
        assert [path.name for path in (tmp_path / name).iterdir()] == ["one.jpg"]


def test_a_metadata_log_only_formatted_by_kafka_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint").write_bytes(b"")
    log_dir = opened(tmp_path)
    assert list(log_dir.logs) == [("__cluster_metadata", 0)]
    log_dir.close()


def test_a_stray_partition_is_renamed_and_kept(tmp_path: Path) -> None:
    log_dir = filled(tmp_path)
    log_dir.mark_stray("topic", 2)
    run_due_deletions(log_dir, NOW_MS + 10**9)
    log_dir.close()
    assert len(list(tmp_path.glob("topic-2.*-stray"))) == 1
    again = opened(tmp_path)
    assert ("topic", 2) not in again.logs
    again.close()


def test_other_directories_are_not_changed(tmp_path: Path) -> None:
    for name in ("lost+found", "topic", "-0", "topic-x", "topic-00", "bad topic-0", "topic-0.abc-future"):
        (tmp_path / name).mkdir()
    log_dir = opened(tmp_path)
    assert log_dir.logs == {}
    assert log_dir.findings == []
    log_dir.close()


def test_a_partition_that_cannot_be_created_is_a_storage_error(tmp_path: Path) -> None:
    files = MemoryFiles()
    log_dir = opened(tmp_path, files=files)
    files.make_read_only()
    with pytest.raises(Rejected) as caught:
        log_dir.create_log("topic", 0, TOPIC_ID, LogConfig(), at_once=True)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    files.heal()
    append(log_dir.create_log("topic", 0, TOPIC_ID, LogConfig()))
    log_dir.close()


def test_more_segments_than_descriptors_can_be_used_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.storage.log_dir.max_open_segments", lambda: 3)
    log_dir = opened(tmp_path)
    logs = [log_dir.create_log("topic", index, TOPIC_ID, LogConfig()) for index in range(10)]
    for _ in range(3):
        for log in logs:
            append(log)
    assert [len(log.read(1, 1000, isolation=Isolation.LOG_END).records) for log in logs] == [2 * len(batch())] * 10
    log_dir.close()
    again = opened(tmp_path)
    assert set(ends(again).values()) == {3}
    again.close()

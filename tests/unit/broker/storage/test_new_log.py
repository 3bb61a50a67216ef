"""A new partition has no files until its first write: operations without a directory, and creating it."""

from __future__ import annotations

import contextlib
import errno
import itertools
from pathlib import Path

from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import load
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.formatting import format_directory
from ottla.broker.storage.leader_epochs import decode_epochs
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.log_values import NOT_FOUND, Isolation
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.producer_state import Origin
from tests.support.logs import NOW_MS, TOPIC_ID, batch, run_due_deletions
from tests.support.topic_dirs import failing_after


def opened(path: Path, *, files: Files = FILES) -> LogDir:
    return LogDir.open(path, BrokerSettings(), NOW_MS, files=files)


def append(log: PartitionLog) -> None:
    log.append(batch(), origin=Origin.CLIENT, leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


def ends(log_dir: LogDir) -> dict[tuple[str, int], int]:
    return {key: log.log_end_offset for key, log in log_dir.logs.items()}


def test_a_new_partition_gets_its_directory_with_the_first_append(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    log = log_dir.create_log("topic", 0, TOPIC_ID, LogConfig())
    log.become_leader(3)
    assert log.read(0, 100, isolation=Isolation.READ_COMMITTED).records == b""
    assert log.offset_for_timestamp(5) == log.offset_for_timestamp(-3) == NOT_FOUND
    assert log.delete_records_before(-1) == 0
    log.flush()
    log.truncate_to(0, NOW_MS)
    assert log.apply_retention(NOW_MS + 10**15) == 0
    assert (log.end_offset_for_epoch(3), list(log.producers())) == ((-1, -1), [])
    log.become_leader(4)
    assert log.end_offset_for_epoch(4) == (4, 0)
    assert not (tmp_path / "topic-0").exists()
    append(log)
    assert {path.name for path in (tmp_path / "topic-0").iterdir()} == {
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    }
    assert decode_epochs((tmp_path / "topic-0" / "leader-epoch-checkpoint").read_bytes()) == [(4, 0)]
    log_dir.close()
    again = opened(tmp_path)
    assert (ends(again), again.logs["topic", 0].topic_id, again.findings) == ({("topic", 0): 1}, TOPIC_ID, [])
    again.close()


def test_a_partition_without_a_directory_is_closed_cleanly_and_deleted_without_one(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    for index in range(3):
        log_dir.create_log("topic", index, TOPIC_ID, LogConfig())
    log_dir.delete_log("topic", 0)
    append(log_dir.create_log("topic", 0, b"2" * 16, LogConfig()))
    log_dir.mark_stray("topic", 1)
    run_due_deletions(log_dir, NOW_MS)
    run_due_deletions(log_dir, NOW_MS + 10**9)
    log_dir.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["topic-0"]


def test_a_first_append_that_fails_on_a_full_disk_is_completed_by_the_next(tmp_path: Path) -> None:
    files = MemoryFiles()
    log_dir = opened(tmp_path, files=files)
    log = log_dir.create_log("topic", 0, TOPIC_ID, LogConfig())
    calls = 0

    def fail_at(nth: int) -> None:
        nonlocal calls
        calls = 0

        def fail(operation: str, path: Path) -> None:
            nonlocal calls
            calls += 1
            if calls == nth:
                raise OSError(errno.ENOSPC, "no space", str(path))

        files.on_call = fail

    for nth in itertools.count(1):
        fail_at(nth)
        with contextlib.suppress(Rejected):
            append(log)
        assert log.failure is None
        if log.log_end_offset:
            break
    assert nth > 5, "a directory takes several steps"
    files.heal()
    append(log)
    log_dir.close()
    again = opened(tmp_path, files=files)
    assert (ends(again), again.findings) == ({("topic", 0): 2}, [])
    again.close()


def test_a_kill_at_any_step_of_a_first_append_leaves_a_usable_partition(tmp_path: Path) -> None:
    for nth in itertools.count(1):
        files = MemoryFiles()
        log_dir = opened(tmp_path, files=files)
        log = log_dir.create_log("topic", 0, TOPIC_ID, LogConfig())
        files.on_call = failing_after(nth)
        with contextlib.suppress(Rejected):
            append(log)
        acknowledged = log.log_end_offset
        files.heal()
        log_dir.close(clean=False)
        again = opened(tmp_path, files=files)
        found = again.logs.get(("topic", 0)) or again.create_log("topic", 0, TOPIC_ID, LogConfig())
        assert found.log_end_offset >= acknowledged
        append(found)
        again.close()
        if acknowledged:
            break
    assert nth > 5, "a directory takes several steps"


def test_the_first_sync_of_a_partition_makes_its_directorys_own_name_durable(tmp_path: Path) -> None:
    files = MemoryFiles()
    log_dir = opened(tmp_path, files=files)
    log = log_dir.create_log("topic", 0, TOPIC_ID, LogConfig())
    append(log)
    synced: list[Path] = []
    files.on_call = lambda operation, path: synced.append(path) if operation == "fsync" else None
    log.flush()
    assert synced.index(tmp_path) > synced.index(tmp_path / "topic-0") > synced.index(tmp_path / "topic-0" / "partition.metadata")
    append(log)
    synced.clear()
    log.flush()
    assert tmp_path not in synced
    files.heal()
    log_dir.close()


def test_an_unused_partition_holds_no_descriptor_after_a_start(tmp_path: Path) -> None:
    log_dir = opened(tmp_path)
    for index in range(3):
        append(log_dir.create_log("topic", index, TOPIC_ID, LogConfig()))
    log_dir.close(clean=False)
    again = opened(tmp_path)
    assert not any(log.segments.active.is_open for log in again.logs.values())
    append(again.logs["topic", 1])
    assert again.logs["topic", 1].segments.active.is_open
    again.close()


MEMBER = {"process.roles": "broker", "node.id": "1", "controller.quorum.bootstrap.servers": "c:9093", "controller.listener.names": "C"}


def opened_by_a_member(files: MemoryFiles) -> LogDir:
    """Open a directory as a cluster broker does, formatting it first if needed."""
    path, settings = Path("/data"), load({**MEMBER, "listener.security.protocol.map": "C:PLAINTEXT,PLAINTEXT:PLAINTEXT"}, {}, None).settings
    if not files.exists(path):
        files.make_dir(path)
        format_directory(
            path, "AAAAAAAAAAAAAAAAAAAAAQ", settings.node_id, bootstrap_levels({}, None, dynamic_quorum=True), NOW_MS, files=files
        )
    return LogDir.open(path, settings, NOW_MS, files=files)


def test_a_cluster_brokers_partition_metadata_is_durable_before_its_first_record() -> None:
    """Without this file the partition's directory would be stray in the cluster even if it had records."""
    files = MemoryFiles()
    log = opened_by_a_member(files).create_log("topic", 0, TOPIC_ID, LogConfig())
    assert not files.exists(Path("/data/topic-0"))
    append(log)
    files.power_loss()
    assert opened_by_a_member(files).logs["topic", 0].topic_id == TOPIC_ID


def test_a_crash_while_a_cluster_broker_creates_a_partition_is_harmless() -> None:
    for calls in range(20):  # the last one, the append, succeeds too
        files = MemoryFiles()
        log_dir = opened_by_a_member(files)
        files.on_call = failing_after(calls)
        with contextlib.suppress(OSError, Rejected):
            append(log_dir.create_log("topic", 0, TOPIC_ID, LogConfig()))
        files.heal()
        files.process_died()
        again = opened_by_a_member(files)
        if again.logs:
            again.mark_stray("topic", 0)
        append(again.create_log("topic", 0, TOPIC_ID, LogConfig()))
        assert ends(again) == {("topic", 0): 1}

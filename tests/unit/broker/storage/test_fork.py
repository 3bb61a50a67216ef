"""Forks of data directories: which files are shared, which are left out, and that a change of either directory never changes the other."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.storage import fork as forking
from ottla.broker.storage.fork import ForkRefused, fork
from ottla.broker.storage.log_cleaner import clean_log
from ottla.broker.storage.log_dir import CLEAN_SHUTDOWN, LogDir
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.partition_log import Origin, PartitionLog
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.logs import NOW_MS, TOPIC_ID, batch, marker, run_due_deletions

SMALL_SEGMENTS = LogConfig(segment_bytes=2_000, index_interval_bytes=200, file_delete_delay_ms=0)
KEYED = LogConfig(segment_bytes=2_000, index_interval_bytes=200, cleanup_policy=frozenset({"compact"}), file_delete_delay_ms=0)


CONFIGS = {"plain": SMALL_SEGMENTS, "keyed": KEYED}


def opened(path: Path) -> LogDir:
    """Open a directory, and commit all of its records as the leader of every partition."""
    made = LogDir.open(path, BrokerSettings(transaction_partition_verification_enable=False, log_segment_delete_delay_ms=0), NOW_MS)
    for log in made.logs.values():
        log.config = CONFIGS[log.topic]
        log.advance_high_watermark(log.log_end_offset)
    return made


def append(log: PartitionLog, data: bytes) -> None:
    log.append(data, origin=Origin.COORDINATOR, leader_epoch=max(log.epochs.latest, 0), now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


def keyed(number: int, sequence: int) -> bytes:
    return build_batch(
        [SimpleRecord(b"k%d" % (number % 5), b"%d" % number * 20, NOW_MS)], producer_id=9, producer_epoch=0, base_sequence=sequence
    )


def fill(log_dir: LogDir) -> None:
    """Write a plain topic with aborted transactions and a compacted one, of about ten segments each."""
    plain = log_dir.create_log("plain", 0, TOPIC_ID, SMALL_SEGMENTS)
    compacted = log_dir.create_log("keyed", 0, bytes(15) + b"\2", KEYED)
    for number in range(60):
        append(plain, batch(7, 0, number * 2, 2, size=100, transactional=True))
        if number % 5 == 4:
            append(plain, marker(7, 0, committed=number % 2 == 0))
        append(compacted, keyed(number, number))


def hashes(path: Path) -> dict[str, str]:
    return {
        file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def everything(log_dir: LogDir) -> dict[str, bytes]:
    """Return all batches of each partition, by its name."""
    return {f"{topic}-{index}": b"".join(batches(log)) for (topic, index), log in log_dir.logs.items()}


def batches(log: PartitionLog) -> Iterator[bytes]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.read(offset, 1 << 30, isolation=Isolation.LOG_END, min_one_batch=True).records
        *_, (_, last) = split_batches(found)
        offset = last.next_offset
        yield bytes(found)


@pytest.fixture
def original(tmp_path: Path) -> Path:
    """Return a data directory that was shut down cleanly."""
    log_dir = opened(tmp_path / "original")
    fill(log_dir)
    log_dir.close()
    return tmp_path / "original"


def test_a_fork_of_a_stopped_broker_opens_cleanly_with_the_same_records(original: Path, tmp_path: Path) -> None:
    report = fork(original, tmp_path / "new")
    assert report.clean
    assert report.partitions == 2
    copy, first = opened(tmp_path / "new"), opened(original)
    assert copy.was_clean
    assert everything(copy) == everything(first)
    assert copy.meta == first.meta
    copy.close()
    first.close()


def test_closed_segments_are_shared_and_everything_else_is_copied(original: Path, tmp_path: Path) -> None:
    report = fork(original, tmp_path / "new")
    shared = {file.name for file in (tmp_path / "new").rglob("*") if file.is_file() and file.stat().st_nlink > 1}
    if report.cloned:
        pytest.skip("this file system has reflinks, which do not show in link counts")
    assert report.linked > 10
    assert all(name.endswith(".log") for name in shared)
    newest = max(original.glob("plain-0/*.log")).name
    assert (tmp_path / "new" / "plain-0" / newest).stat().st_nlink == 1


def test_nothing_is_shared_without_links(original: Path, tmp_path: Path) -> None:
    fork(original, tmp_path / "new", links=False)
    assert all(file.stat().st_nlink == 1 for file in (tmp_path / "new").rglob("*") if file.is_file())


def test_fork_of_a_running_broker_opens_like_a_crashed_directory(tmp_path: Path) -> None:
    running = opened(tmp_path / "original")
    fill(running)
    report = fork(tmp_path / "original", tmp_path / "new")
    assert not report.clean
    copy = opened(tmp_path / "new")
    assert not copy.was_clean
    assert everything(copy) == everything(running)
    assert not copy.findings
    copy.close()
    running.close()


def test_records_appended_while_the_files_are_copied_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = opened(tmp_path / "original")
    fill(running)
    before = everything(running)
    copy_one, roomy = forking.copy_file, running.logs["plain", 0]
    roomy.config = LogConfig()  # the active segment grows instead of being closed

    def append_first(source: Path, target: Path, size: int | None = None) -> bool:
        append(roomy, batch())
        return copy_one(source, target, size)

    monkeypatch.setattr(forking, "copy_file", append_first)
    fork(tmp_path / "original", tmp_path / "new")
    copy = opened(tmp_path / "new")
    appended = everything(running)["plain-0"].removeprefix(before["plain-0"])
    assert len(appended) > 10 * len(batch())
    only_first = appended[: len(batch())]  # it was appended before the logs were measured
    assert everything(copy)["plain-0"] == before["plain-0"] + only_first
    copy.close()
    running.close()


def test_a_segment_that_retention_removes_meanwhile_begins_the_copy_again(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []
    copy_one = forking.copy_file

    def remove_first(source: Path, target: Path, size: int | None = None) -> bool:
        if not removed and source.parent.name == "plain-0":
            first = min(source.parent.glob("*.log"))
            for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                first.with_suffix(suffix).unlink(missing_ok=True)
            removed.append(first)
        return copy_one(source, target, size)

    monkeypatch.setattr(forking, "copy_file", remove_first)
    fork(original, tmp_path / "new")
    assert removed
    assert sorted(hashes(tmp_path / "new")) == sorted(name for name in hashes(original) if name != ".lock")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "original"]


# --- neither changes the other -----------------------------------------------------------------------------------------------------------


def truncate(log_dir: LogDir, rng: random.Random) -> None:
    log = log_dir.logs["plain", 0]
    log.truncate_to(rng.randrange(log.log_start_offset, log.log_end_offset + 1), NOW_MS)
    append(log, batch(size=300))


def expire(log_dir: LogDir, rng: random.Random) -> None:
    log = log_dir.logs["plain", 0]
    log.config = LogConfig(segment_bytes=2_000, retention_bytes=rng.randrange(8_000), file_delete_delay_ms=0)
    log.apply_retention(NOW_MS)
    run_due_deletions(log_dir, NOW_MS + 1)


def compact(log_dir: LogDir, _: random.Random) -> None:
    log = log_dir.logs["keyed", 0]
    for _ in clean_log(log, 0, NOW_MS):
        pass
    run_due_deletions(log_dir, NOW_MS + 1)


def delete_records(log_dir: LogDir, rng: random.Random) -> None:
    log = log_dir.logs["plain", 0]
    log.delete_records_before(rng.randrange(log.log_start_offset, log.log_end_offset + 1))


def write_more(log_dir: LogDir, _: random.Random) -> None:
    for _ in range(5):
        append(log_dir.logs["plain", 0], batch(size=500))
        append(log_dir.logs["keyed", 0], batch(size=500))


def delete_and_create(log_dir: LogDir, _: random.Random) -> None:
    log_dir.delete_log("plain", 0)
    run_due_deletions(log_dir, NOW_MS)
    run_due_deletions(log_dir, NOW_MS + 1)
    append(log_dir.create_log("plain", 0, TOPIC_ID, SMALL_SEGMENTS), batch())


USES: list[Callable[[LogDir, random.Random], None]] = [truncate, expire, compact, delete_records, write_more, delete_and_create]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from([*USES, "crash", "stop", "recover"]), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_no_use_of_a_fork_changes_the_original(tmp_path_factory: pytest.TempPathFactory, uses: list[object], rng: random.Random) -> None:
    root = tmp_path_factory.mktemp("fork")
    log_dir = opened(root / "original")
    fill(log_dir)
    log_dir.close(clean=rng.random() < 0.5)
    fork(root / "original", root / "second")  # a link count of three
    before = hashes(root / "original"), hashes(root / "second")
    fork(root / "original", root / "new")
    copy = opened(root / "new")
    for use in uses:
        if callable(use):
            use(copy, rng)
        else:
            copy.close(clean=use == "stop")
            if use == "recover":  # every batch is read again, and indexes are rebuilt in place
                for file in [*(root / "new").glob("*/*.index"), root / "new" / "recovery-point-offset-checkpoint"]:
                    file.unlink(missing_ok=True)
            copy = opened(root / "new")
    copy.close()
    assert (hashes(root / "original"), hashes(root / "second")) == before


def test_recovery_that_cuts_a_shared_segment_cuts_only_the_copy(tmp_path: Path) -> None:
    log_dir = opened(tmp_path / "original")
    fill(log_dir)
    log_dir.close(clean=False)
    victim = sorted((tmp_path / "original" / "plain-0").glob("*.log"))[2]
    with victim.open("r+b") as torn:
        torn.truncate(victim.stat().st_size - 50)
    before = hashes(tmp_path / "original")
    fork(tmp_path / "original", tmp_path / "new")
    copy = opened(tmp_path / "new")
    assert any(finding.bytes_dropped for finding in copy.findings)
    append(copy.logs["plain", 0], batch())
    copy.close()
    assert hashes(tmp_path / "original") == before


def test_the_original_does_not_change_the_fork_either(original: Path, tmp_path: Path) -> None:
    fork(original, tmp_path / "new")
    before = hashes(tmp_path / "new")
    first = opened(original)
    first.logs["plain", 0].truncate_to(3, NOW_MS)
    append(first.logs["plain", 0], batch())
    first.close()
    assert hashes(tmp_path / "new") == before


# --- refusals ----------------------------------------------------------------------------------------------------------------------------


def test_a_directory_without_a_broker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForkRefused, match="is not a directory"):
        fork(tmp_path / "none", tmp_path / "new")
    (tmp_path / "photos").mkdir()
    with pytest.raises(ForkRefused, match=r"no data directory.*meta\.properties"):
        fork(tmp_path / "photos", tmp_path / "new")


def test_an_existing_target_is_refused_and_stays(original: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with pytest.raises(ForkRefused, match="exists already"):
        fork(original, tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_target_inside_the_original_is_refused(original: Path) -> None:
    before = hashes(original)
    with pytest.raises(ForkRefused, match="put the copy beside it"):
        fork(original, original / "new")
    assert hashes(original) == before


def test_a_disk_without_room_is_refused_before_anything_is_copied(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        free = 1_000

    monkeypatch.setattr(forking.shutil, "disk_usage", lambda _: Full)
    with pytest.raises(ForkRefused, match=r"0 MB of free space, and the copy needs"):
        fork(original, tmp_path / "new", links=False)
    assert [path.name for path in tmp_path.iterdir()] == ["original"]


def test_deleted_files_and_the_lock_are_left_out(original: Path, tmp_path: Path) -> None:
    (original / "plain-0" / "00000000000000000000.log.deleted").write_bytes(b"x")
    (original / ("gone-0." + "0" * 32 + "-delete")).mkdir()
    fork(original, tmp_path / "new")
    assert not list((tmp_path / "new").rglob("*delete*"))
    assert not (tmp_path / "new" / ".lock").exists()
    assert (tmp_path / "new" / CLEAN_SHUTDOWN).exists()

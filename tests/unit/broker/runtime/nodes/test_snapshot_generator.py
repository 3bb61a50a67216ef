from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ottla.broker.cluster.metadata_records import BeginTransactionRecord, ConfigRecord, EndTransactionRecord
from ottla.broker.cluster.snapshots import Snapshot, SnapshotId, read_snapshot
from ottla.broker.runtime.nodes.observer import UPKEEP_MS, ObserverSettings
from ottla.broker.runtime.nodes.snapshot_generator import SnapshotPolicy
from ottla.broker.storage.raft_log import MetadataRetention
from tests.support.metadata_images import made_of
from tests.support.observer_harness import ObserverHarness
from tests.support.simulation import settle


async def started(settings: ObserverSettings) -> ObserverHarness:
    harness = ObserverHarness(settings=settings)
    harness.quorum.elect(1)
    harness.quorum.commit()
    harness.observer.start()
    await harness.pass_time(40)
    return harness


def made(harness: ObserverHarness) -> dict[SnapshotId, Snapshot]:
    found = {SnapshotId.of_file(entry.name): entry.name for entry in harness.files.scan(harness.directory)}
    return {each: read_snapshot(harness.files.read_bytes(harness.directory / name)) for each, name in found.items() if each is not None}


async def change(harness: ObserverHarness, value: str) -> None:
    harness.quorum.put("a", value)
    harness.quorum.commit()
    await settle()


async def test_a_snapshot_is_made_after_the_configured_bytes_and_equals_the_log() -> None:
    harness = await started(ObserverSettings(snapshots=SnapshotPolicy(max_bytes=400)))
    for n in range(12):
        await change(harness, str(n))
    snapshots = made(harness)
    assert 1 < len(snapshots) < 6
    for each, snapshot in snapshots.items():
        assert made_of(*snapshot.records) == harness.quorum.image(each.end_offset)
        assert (each.epoch, snapshot.kraft_version, snapshot.voters) == (1, 0, None)
    await harness.restart()
    await harness.pass_time(40)
    assert harness.published[-1].image == harness.quorum.image(harness.quorum.high_watermark)
    await harness.nursery.stop()
    assert harness.failures == []


async def test_a_snapshot_is_made_after_the_configured_time_if_the_log_grew() -> None:
    harness = await started(ObserverSettings(snapshots=SnapshotPolicy(interval_ms=10_000)))
    await harness.pass_time(11_000, 500)
    assert made(harness) == {}
    await change(harness, "1")
    assert [each.end_offset for each in made(harness)] == [3]
    await change(harness, "2")
    assert len(made(harness)) == 1
    await harness.nursery.stop()


@pytest.mark.parametrize("policy", [SnapshotPolicy(), SnapshotPolicy(interval_ms=0)], ids=["not yet", "never by time"])
async def test_no_snapshot_is_made_before_it_is_due(policy: SnapshotPolicy) -> None:
    harness = await started(ObserverSettings(snapshots=policy))
    await harness.pass_time(3_500_000, 500_000)
    await change(harness, "1")
    assert made(harness) == {}
    await harness.nursery.stop()


async def test_no_snapshot_is_made_inside_a_metadata_transaction() -> None:
    harness = await started(ObserverSettings(snapshots=SnapshotPolicy(max_bytes=1)))
    before = made(harness)
    one, two = ConfigRecord(2, "topic", "a", "1"), ConfigRecord(2, "topic", "b", "1")
    harness.quorum.write(one, BeginTransactionRecord("t"), two)
    harness.quorum.commit()
    await settle()
    assert harness.published[-1].image.configs == {(2, "topic"): {"a": "1"}}
    assert made(harness) == before
    harness.quorum.write(EndTransactionRecord())
    harness.quorum.commit()
    await settle()
    assert max(made(harness)).end_offset == harness.quorum.high_watermark
    await harness.nursery.stop()


async def test_a_full_disk_skips_the_snapshot_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    harness = await started(ObserverSettings(snapshots=SnapshotPolicy(max_bytes=1)))

    def refuse(operation: str, path: Path) -> None:
        if operation == "write" and path.name.endswith(".part"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    harness.files.on_call = refuse
    before = len(made(harness))
    await change(harness, "1")
    assert (len(made(harness)), harness.failures) == (before, [])
    assert "No space left" in caplog.text
    harness.files.heal()
    await change(harness, "2")
    assert len(made(harness)) == before + 1
    await harness.nursery.stop()


async def test_each_minute_the_log_is_synced_and_retention_deletes() -> None:
    settings = ObserverSettings(retention=MetadataRetention(max_bytes=1), snapshots=SnapshotPolicy(max_bytes=300))
    harness = await started(settings)
    for n in range(12):
        await change(harness, str(n))
    assert len(made(harness)) > 1
    assert harness.log.recovery_point == 0
    await harness.pass_time(UPKEEP_MS + 1_000, 1_000)
    (newest,) = made(harness)
    assert harness.log.log_start_offset == newest.end_offset
    assert harness.log.recovery_point == harness.log.log_end_offset
    await harness.pass_time(2 * UPKEEP_MS, 1_000)
    assert not [entry for entry in harness.files.scan(harness.directory) if entry.name.endswith(".deleted")]
    await harness.nursery.stop()
    assert harness.failures == []

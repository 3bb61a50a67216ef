from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ottla.broker.cluster.metadata_records import BeginTransactionRecord, ConfigRecord, EndTransactionRecord
from ottla.broker.cluster.snapshots import Snapshot, SnapshotId, read_snapshot
from ottla.broker.runtime.nodes.observer import UPKEEP_MS, ObserverSettings
from ottla.broker.runtime.nodes.snapshot_maker import SnapshotPolicy
from ottla.broker.storage.raft_log import MetadataRetention
from tests.support.metadata_images import made_of
from tests.support.observer_scene import ObserverScene
from tests.support.simulation import settle


async def started(settings: ObserverSettings) -> ObserverScene:
    scene = ObserverScene(settings=settings)
    scene.quorum.elect(1)
    scene.quorum.commit()
    scene.observer.start()
    await scene.pass_time(40)
    return scene


def made(scene: ObserverScene) -> dict[SnapshotId, Snapshot]:
    found = {SnapshotId.of_file(entry.name): entry.name for entry in scene.files.scan(scene.directory)}
    return {each: read_snapshot(scene.files.read_bytes(scene.directory / name)) for each, name in found.items() if each is not None}


async def change(scene: ObserverScene, value: str) -> None:
    scene.quorum.put("a", value)
    scene.quorum.commit()
    await settle()


async def test_a_snapshot_is_made_after_the_configured_bytes_and_equals_the_log() -> None:
    scene = await started(ObserverSettings(snapshots=SnapshotPolicy(max_bytes=400)))
    for n in range(12):
        await change(scene, str(n))
    snapshots = made(scene)
    assert 1 < len(snapshots) < 6
    for each, snapshot in snapshots.items():
        assert made_of(*snapshot.records) == scene.quorum.image(each.end_offset)
        assert (each.epoch, snapshot.kraft_version, snapshot.voters) == (1, 0, None)
    await scene.restart()
    await scene.pass_time(40)
    assert scene.published[-1].image == scene.quorum.image(scene.quorum.high_watermark)
    await scene.nursery.stop()
    assert scene.failures == []


async def test_a_snapshot_is_made_after_the_configured_time_if_the_log_grew() -> None:
    scene = await started(ObserverSettings(snapshots=SnapshotPolicy(interval_ms=10_000)))
    await scene.pass_time(11_000, 500)
    assert made(scene) == {}
    await change(scene, "1")
    assert [each.end_offset for each in made(scene)] == [3]
    await change(scene, "2")
    assert len(made(scene)) == 1
    await scene.nursery.stop()


@pytest.mark.parametrize("policy", [SnapshotPolicy(), SnapshotPolicy(interval_ms=0)], ids=["not yet", "never by time"])
async def test_no_snapshot_is_made_before_it_is_due(policy: SnapshotPolicy) -> None:
    scene = await started(ObserverSettings(snapshots=policy))
    await scene.pass_time(3_500_000, 500_000)
    await change(scene, "1")
    assert made(scene) == {}
    await scene.nursery.stop()


async def test_no_snapshot_is_made_inside_a_metadata_transaction() -> None:
    scene = await started(ObserverSettings(snapshots=SnapshotPolicy(max_bytes=1)))
    before = made(scene)
    one, two = ConfigRecord(2, "topic", "a", "1"), ConfigRecord(2, "topic", "b", "1")
    scene.quorum.write(one, BeginTransactionRecord("t"), two)
    scene.quorum.commit()
    await settle()
    assert scene.published[-1].image.configs == {(2, "topic"): {"a": "1"}}
    assert made(scene) == before
    scene.quorum.write(EndTransactionRecord())
    scene.quorum.commit()
    await settle()
    assert max(made(scene)).end_offset == scene.quorum.high_watermark
    await scene.nursery.stop()


async def test_a_full_disk_skips_the_snapshot_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    scene = await started(ObserverSettings(snapshots=SnapshotPolicy(max_bytes=1)))

    def refuse(operation: str, path: Path) -> None:
        if operation == "write" and path.name.endswith(".part"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    scene.files.on_call = refuse
    before = len(made(scene))
    await change(scene, "1")
    assert (len(made(scene)), scene.failures) == (before, [])
    assert "No space left" in caplog.text
    scene.files.heal()
    await change(scene, "2")
    assert len(made(scene)) == before + 1
    await scene.nursery.stop()


async def test_each_minute_the_log_is_synced_and_retention_deletes() -> None:
    settings = ObserverSettings(retention=MetadataRetention(max_bytes=1), snapshots=SnapshotPolicy(max_bytes=300))
    scene = await started(settings)
    for n in range(12):
        await change(scene, str(n))
    assert len(made(scene)) > 1
    assert scene.log.recovery_point == 0
    await scene.pass_time(UPKEEP_MS + 1_000, 1_000)
    (newest,) = made(scene)
    assert scene.log.log_start_offset == newest.end_offset
    assert scene.log.recovery_point == scene.log.log_end_offset
    await scene.pass_time(2 * UPKEEP_MS, 1_000)
    assert not [entry for entry in scene.files.scan(scene.directory) if entry.name.endswith(".deleted")]
    await scene.nursery.stop()
    assert scene.failures == []

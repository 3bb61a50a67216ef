"""The only voter of a quorum: its election and its commits."""

from __future__ import annotations

import errno
import json

import pytest

from ottla.broker.cluster.metadata_records import BeginTransactionRecord, ConfigRecord
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.core.log_config import LogConfig
from ottla.broker.runtime.nodes.snapshot_maker import SnapshotPolicy
from ottla.broker.runtime.quorum.sole_voter import RECORDS_AT_ONCE
from ottla.broker.storage.errors import LogDirRefused
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.control import ControlType, control_type
from ottla.protocol.records.record import iter_records
from tests.support.raft_logs import DIRECTORY
from tests.support.simulation import settle
from tests.support.voter_scene import AT, LEVEL, ME, VoterScene


def controls(scene: VoterScene) -> list[list[ControlType | None]]:
    """Return the control record types of each control batch in the log."""
    data = scene.voter.raft_log.committed(0)
    found = []
    for position, header in split_batches(data):
        if header.is_control:
            batch = memoryview(data)[position : position + header.size_bytes]
            found.append([control_type(record.key) for record in iter_records(batch)])
    return found


async def test_each_start_begins_a_new_epoch_with_a_leader_change() -> None:
    scene = VoterScene()
    for epoch in (1, 2, 3):
        voter = scene.begin()
        assert (voter.epoch, voter.end_offset, voter.high_watermark) == (epoch, epoch, epoch)
        assert controls(scene) == [[ControlType.LEADER_CHANGE]] * epoch
        saved = json.loads(scene.files.read_bytes(DIRECTORY / "quorum-state"))
        assert (saved["leaderEpoch"], saved["leaderId"], saved["data_version"]) == (epoch, 1, 0)
        scene.end(power_loss=True)


async def test_the_epoch_is_above_the_logs_if_quorum_state_is_missing() -> None:
    scene = VoterScene()
    scene.begin()
    scene.end()
    scene.begin()
    scene.end()
    scene.files.remove(DIRECTORY / "quorum-state")
    assert scene.begin().epoch == 3


async def test_records_are_committed_and_published_when_durable() -> None:
    scene = VoterScene()
    voter = scene.begin()
    scene.first()
    await settle()
    scene.threads.holds = True
    assert scene.set("a") == 2
    done = voter.committed()
    await settle()
    assert (done.done(), voter.high_watermark, scene.value) == (False, 2, None)
    assert scene.set("b") == 3
    scene.threads.go()
    await settle()
    assert (done.done(), voter.high_watermark, scene.value) == (True, 3, "a")
    scene.threads.go()
    await settle()
    assert (voter.high_watermark, scene.value) == (4, "b")
    assert voter.committed().done()


async def test_committed_records_survive_a_power_loss_and_are_published_as_one_image() -> None:
    scene = VoterScene()
    scene.begin()
    scene.first()
    for value in "abc":
        scene.set(value)
    await settle()
    scene.end(power_loss=True)
    scene.told.clear()
    scene.begin()
    assert scene.value == "c"
    assert scene.told[0].changes.configs == {(2, "t"): {"name": "c"}}


async def test_records_are_split_into_batches_with_consecutive_offsets() -> None:
    scene = VoterScene()
    voter = scene.begin()
    scene.first()
    records = [ConfigRecord(2, "t", f"name{n}", "v") for n in range(RECORDS_AT_ONCE + 1)]
    assert voter.append(records, LEVEL) == 2
    await settle()
    assert voter.high_watermark == 2 + len(records)
    assert len(scene.told[-1].image.configs[2, "t"]) == len(records)


async def test_the_voters_record_is_written_first_and_again_when_the_endpoint_changes() -> None:
    scene = VoterScene(static=False)
    scene.format_dynamic()
    first = [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    scene.open_log()
    scene.begin()
    assert controls(scene) == [first]
    assert json.loads(scene.files.read_bytes(DIRECTORY / "quorum-state"))["data_version"] == 1
    scene.end()
    scene.begin()
    assert controls(scene) == [first, first[:1]]
    scene.end()
    scene.me = ME._replace(endpoints=[VoterEndpoint("CONTROLLER", "c1", 9999)])
    voter = scene.begin()
    assert controls(scene) == [first, first[:1], first]
    assert voter.quorum.voters is not None
    assert voter.quorum.voters.voters[0].endpoints == scene.me.endpoints != [AT]


@pytest.mark.parametrize(("node", "directory"), [(2, ME.directory_id), (1, b"e" * 16)])
async def test_a_directory_with_another_voter_is_refused(node: int, directory: bytes) -> None:
    scene = VoterScene(static=False)
    scene.format_dynamic(directory, node)
    scene.open_log()
    with pytest.raises(
        LogDirRefused, match=f"the voters of this quorum are {node}-.*, and this node is 1-.*: .*Apache Kafka's controllers"
    ):
        scene.begin()


async def test_a_directory_without_voters_is_refused_if_none_are_configured() -> None:
    with pytest.raises(LogDirRefused, match=r"set controller\.quorum\.voters=1@"):
        VoterScene(static=False).begin()


async def test_an_open_metadata_transaction_is_detected() -> None:
    scene = VoterScene()
    voter = scene.begin()
    scene.first()
    voter.append([BeginTransactionRecord("x"), ConfigRecord(2, "t", "name", "v")], LEVEL)
    await settle()
    scene.end()
    voter = scene.begin()
    assert (voter.in_transaction, scene.value) == (True, None)


async def test_a_restart_reads_the_snapshot_and_the_records_after_it() -> None:
    scene = VoterScene(policy=SnapshotPolicy(max_bytes=2_000), config=LogConfig(retention_ms=-1, retention_bytes=-1))
    voter = scene.begin()
    scene.first()
    for n in range(60):
        scene.set(str(n))
        await settle()
    newest = voter.raft_log.snapshots.newest
    assert newest is not None
    assert 0 < newest.end_offset <= voter.end_offset
    scene.end()
    scene.begin()
    assert scene.value == "59"


async def test_a_failed_sync_stops_the_process_and_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    scene = VoterScene()
    voter = scene.begin()
    scene.first()
    await settle()
    scene.threads.holds = True
    scene.set("a")
    done = voter.committed()
    monkeypatch.setattr(scene.files, "fsync", refused)
    scene.threads.go()
    await settle()
    assert (len(scene.failures), done.done(), voter.high_watermark) == (1, False, 2)

"""The only voter of a quorum: its election and its commits."""

from __future__ import annotations

import errno
import json

import pytest

from ottla.broker.cluster.metadata_records import BeginTransactionRecord, ConfigRecord
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.core.log_config import LogConfig
from ottla.broker.runtime.nodes.snapshot_generator import SnapshotPolicy
from ottla.broker.runtime.quorum.sole_voter import RECORDS_AT_ONCE
from ottla.broker.storage.errors import LogDirRefused
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.control import ControlType, control_type
from ottla.protocol.records.record import iter_records
from tests.support.raft_logs import DIRECTORY
from tests.support.simulation import settle
from tests.support.voter_harness import AT, LEVEL, ME, VoterHarness


def controls(harness: VoterHarness) -> list[list[ControlType | None]]:
    """Return the control record types of each control batch in the log."""
    data = harness.voter.raft_log.committed(0)
    found = []
    for position, header in split_batches(data):
        if header.is_control:
            batch = memoryview(data)[position : position + header.size_bytes]
            found.append([control_type(record.key) for record in iter_records(batch)])
    return found


async def test_each_start_begins_a_new_epoch_with_a_leader_change() -> None:
    harness = VoterHarness()
    for epoch in (1, 2, 3):
        voter = harness.begin()
        assert (voter.epoch, voter.end_offset, voter.high_watermark) == (epoch, epoch, epoch)
        assert controls(harness) == [[ControlType.LEADER_CHANGE]] * epoch
        saved = json.loads(harness.files.read_bytes(DIRECTORY / "quorum-state"))
        assert (saved["leaderEpoch"], saved["leaderId"], saved["data_version"]) == (epoch, 1, 0)
        harness.end(power_loss=True)


async def test_the_epoch_is_above_the_logs_if_quorum_state_is_missing() -> None:
    harness = VoterHarness()
    harness.begin()
    harness.end()
    harness.begin()
    harness.end()
    harness.files.remove(DIRECTORY / "quorum-state")
    assert harness.begin().epoch == 3


async def test_records_are_committed_and_published_when_durable() -> None:
    harness = VoterHarness()
    voter = harness.begin()
    harness.first()
    await settle()
    harness.threads.holds = True
    assert harness.set("a") == 2
    done = voter.commit()
    await settle()
    assert (done.done(), voter.high_watermark, harness.value) == (False, 2, None)
    assert harness.set("b") == 3
    harness.threads.run_all()
    await settle()
    assert (done.done(), voter.high_watermark, harness.value) == (True, 3, "a")
    harness.threads.run_all()
    await settle()
    assert (voter.high_watermark, harness.value) == (4, "b")
    assert voter.commit().done()


async def test_committed_records_survive_a_power_loss_and_are_published_as_one_image() -> None:
    harness = VoterHarness()
    harness.begin()
    harness.first()
    for value in "abc":
        harness.set(value)
    await settle()
    harness.end(power_loss=True)
    harness.published.clear()
    harness.begin()
    assert harness.value == "c"
    assert harness.published[0].changes.configs == {(2, "t"): {"name": "c"}}


async def test_records_are_split_into_batches_with_consecutive_offsets() -> None:
    harness = VoterHarness()
    voter = harness.begin()
    harness.first()
    records = [ConfigRecord(2, "t", f"name{n}", "v") for n in range(RECORDS_AT_ONCE + 1)]
    assert voter.append(records, LEVEL) == 2
    await settle()
    assert voter.high_watermark == 2 + len(records)
    assert len(harness.published[-1].image.configs[2, "t"]) == len(records)


async def test_the_voters_record_is_written_first_and_again_when_the_endpoint_changes() -> None:
    harness = VoterHarness(static=False)
    harness.format_dynamic()
    first = [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    harness.open_log()
    harness.begin()
    assert controls(harness) == [first]
    assert json.loads(harness.files.read_bytes(DIRECTORY / "quorum-state"))["data_version"] == 1
    harness.end()
    harness.begin()
    assert controls(harness) == [first, first[:1]]
    harness.end()
    harness.me = ME._replace(endpoints=[VoterEndpoint("CONTROLLER", "c1", 9999)])
    voter = harness.begin()
    assert controls(harness) == [first, first[:1], first]
    assert voter.quorum.voters is not None
    assert voter.quorum.voters.voters[0].endpoints == harness.me.endpoints != [AT]


@pytest.mark.parametrize(("node", "directory"), [(2, ME.directory_id), (1, b"e" * 16)])
async def test_a_directory_with_another_voter_is_refused(node: int, directory: bytes) -> None:
    harness = VoterHarness(static=False)
    harness.format_dynamic(directory, node)
    harness.open_log()
    with pytest.raises(
        LogDirRefused, match=f"the voters of this quorum are {node}-.*, and this node is 1-.*: .*Apache Kafka's controllers"
    ):
        harness.begin()


async def test_a_directory_without_voters_is_refused_if_none_are_configured() -> None:
    with pytest.raises(LogDirRefused, match=r"set controller\.quorum\.voters=1@"):
        VoterHarness(static=False).begin()


async def test_an_open_metadata_transaction_is_detected() -> None:
    harness = VoterHarness()
    voter = harness.begin()
    harness.first()
    voter.append([BeginTransactionRecord("x"), ConfigRecord(2, "t", "name", "v")], LEVEL)
    await settle()
    harness.end()
    voter = harness.begin()
    assert (voter.in_transaction, harness.value) == (True, None)


async def test_a_restart_reads_the_snapshot_and_the_records_after_it() -> None:
    harness = VoterHarness(policy=SnapshotPolicy(max_bytes=2_000), config=LogConfig(retention_ms=-1, retention_bytes=-1))
    voter = harness.begin()
    harness.first()
    for n in range(60):
        harness.set(str(n))
        await settle()
    newest = voter.raft_log.snapshots.newest
    assert newest is not None
    assert 0 < newest.end_offset <= voter.end_offset
    harness.end()
    harness.begin()
    assert harness.value == "59"


async def test_a_failed_sync_stops_the_process_and_commits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    harness = VoterHarness()
    voter = harness.begin()
    harness.first()
    await settle()
    harness.threads.holds = True
    harness.set("a")
    done = voter.commit()
    monkeypatch.setattr(harness.files, "fsync", refused)
    harness.threads.run_all()
    await settle()
    assert (len(harness.failures), done.done(), voter.high_watermark) == (1, False, 2)

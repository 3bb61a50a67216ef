from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.txn_markers import LocalMarkers
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.partition_logs import PartitionHarness, append_verified
from tests.support.txn_dirs import TxnDir

PLACE = ("t", 0)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PartitionHarness]:
    opened = PartitionHarness(tmp_path / "data", VirtualClock())
    yield opened
    opened.close()


def local(harness: PartitionHarness) -> LocalMarkers:
    return LocalMarkers(harness.partitions, groups=None)  # type: ignore[arg-type]  # no marker of these tests is for an offsets partition


def begin(harness: PartitionHarness) -> None:
    batch = build_batch([SimpleRecord(None, b"x", 1)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    append_verified(harness.partitions.get(*PLACE), batch)


async def test_a_marker_ends_the_transaction_of_its_producer(harness: PartitionHarness) -> None:
    begin(harness)
    assert harness.partitions.get(*PLACE).has_open_transaction(7, 0)
    assert local(harness).write(PLACE, TxnMarker(7, 0, True, 3, 0)) is None
    assert not harness.partitions.get(*PLACE).has_open_transaction(7, 0)


async def test_an_older_coordinator_epoch_is_fenced_unless_it_is_the_only_coordinator(harness: PartitionHarness) -> None:
    begin(harness)
    local(harness).write(PLACE, TxnMarker(7, 0, True, 9, 0))
    begin_again = build_batch([SimpleRecord(None, b"y", 1)], producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    append_verified(harness.partitions.get(*PLACE), begin_again)
    late = TxnMarker(7, 1, False, 3, 0)
    with pytest.raises(Rejected) as fenced:
        local(harness).write(PLACE, late)
    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert harness.partitions.get(*PLACE).has_open_transaction(7, 1)
    local(harness).write_as_only_coordinator(PLACE, late)
    assert not harness.partitions.get(*PLACE).has_open_transaction(7, 1)
    assert harness.partitions.get(*PLACE).coordinator_epoch_seen(7) == 9


async def test_a_newer_producer_epoch_counts_as_marked_for_the_only_coordinator(harness: PartitionHarness) -> None:
    begin(harness)
    local(harness).write(PLACE, TxnMarker(7, 5, True, 3, 0))
    late = TxnMarker(7, 4, True, 3, 0)
    with pytest.raises(Rejected) as refused:
        local(harness).write(PLACE, late)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    end = harness.partitions.get(*PLACE).log.log_end_offset
    assert local(harness).write_as_only_coordinator(PLACE, late) is None
    assert harness.partitions.get(*PLACE).log.log_end_offset == end


async def test_a_marker_in_an_offsets_partition_commits_the_offsets(tmp_path: Path) -> None:
    opened = await TxnDir(tmp_path).load()
    await opened.make_topics(("in", 1))
    producer, place = opened.init(), opened.offsets_place
    opened.commit_offset(producer, 42)
    assert opened.committed_offset() == -1
    LocalMarkers(opened.partitions, opened.groups).write(place, TxnMarker(producer.producer_id, producer.producer_epoch, True, 0, 0))
    assert opened.committed_offset() == 42
    opened.crash()

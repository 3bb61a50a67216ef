from __future__ import annotations

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.leaders_batches import leaders_batches
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import pack_header, read_header
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.record import SimpleRecord, build_batch


def batch(base_offset: int, leader_epoch: int) -> bytes:
    return build_batch([SimpleRecord(None, b"x", 1)], base_offset=base_offset, leader_epoch=leader_epoch)


def test_whole_batches_are_returned_unchanged_without_a_partial_last_one() -> None:
    data = batch(0, 1) + batch(1, 2) + batch(2, 2)[:-1]
    found = list(leaders_batches(data, 2))
    assert b"".join(one.data for one in found) == batch(0, 1) + batch(1, 2)
    assert [one.header.base_offset for one in found] == [0, 1]


def test_a_batch_of_a_later_epoch_ends_the_batches() -> None:
    data = batch(0, 1) + batch(1, 3) + batch(2, 1)
    assert [one.header.base_offset for one in leaders_batches(data, 2)] == [0]


def test_a_marker_has_its_transactions_result() -> None:
    marker = end_txn_marker(committed=True, producer_id=7, producer_epoch=0, coordinator_epoch=1, timestamp=5)
    found = [one.marker for one in leaders_batches(batch(0, 1) + marker, 2)]
    assert found[0] is None
    assert found[1] is not None
    assert found[1].ends_transaction


def test_a_control_batch_whose_record_compaction_removed_ends_nothing() -> None:
    header = read_header(end_txn_marker(committed=True, producer_id=7, producer_epoch=0, coordinator_epoch=1, timestamp=5))
    (found,) = leaders_batches(pack_header(header._replace(record_count=0), b""), 2)
    assert (found.header.record_count, found.marker) == (0, None)


@pytest.mark.parametrize("data", [batch(0, 1)[:-1] + b"\xff", batch(0, 1)[:8] + bytes(4) + batch(0, 1)[12:]])
def test_damage_is_corrupt(data: bytes) -> None:
    with pytest.raises(Rejected) as refused:
        list(leaders_batches(data, 2))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE

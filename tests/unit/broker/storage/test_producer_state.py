"""The short question about a batch that follows its producer's last one agrees with the rules that it stands for; markers."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.rejected import Rejected
from broker.storage.producer_state import LAST_EPOCH, Origin, ProducerState
from protocol.records.batch import BatchHeader, read_header
from protocol.records.control import end_txn_marker, parse_marker
from protocol.records.record import SimpleRecord, build_batch

LAST_SEQUENCE = 2**31 - 1
PRODUCER = 7


def header(sequence: int, count: int = 1, epoch: int = 0, *, transactional: bool = False, producer_id: int = PRODUCER) -> BatchHeader:
    records = [SimpleRecord(None, b"v", 1)] * count
    data = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)
    return read_header(data)


def after(*batches: BatchHeader) -> ProducerState:
    state = ProducerState()
    for offset, batch in enumerate(batches):
        state.apply_batch(batch, 100 * offset)
    return state


sequences = st.sampled_from([-1, 0, 1, 2, 3, 4, 5, 6, LAST_SEQUENCE - 1, LAST_SEQUENCE])
headers = st.builds(header, sequences, st.integers(1, 3), st.integers(0, 1), transactional=st.booleans())


@given(st.lists(headers, max_size=7), headers)
def test_a_batch_that_is_next_repeats_none_and_no_rule_refuses_it(written: list[BatchHeader], batch: BatchHeader) -> None:
    state = ProducerState()
    for offset, earlier in enumerate(written):
        with contextlib.suppress(Rejected):
            state.check_batch(earlier, Origin.CLIENT)
            state.apply_batch(earlier, 100 * offset)
    if state.is_next(batch):
        assert state.find_duplicate(batch) is None
        state.check_batch(batch, Origin.CLIENT)


def test_a_batch_that_follows_its_producers_last_one_is_next() -> None:
    state = after(header(0, 2), header(2, 3))
    assert state.is_next(header(5, 10))
    for other in (header(2, 3), header(4), header(6), header(5, epoch=1), header(5, transactional=True), header(5, producer_id=8)):
        assert not state.is_next(other)


def test_inside_a_transaction_no_batch_is_next() -> None:
    state = after(header(0), header(1, transactional=True))
    assert not state.is_next(header(2))
    assert not state.is_next(header(2, transactional=True))


def test_a_transaction_of_the_last_epoch_is_ended_in_that_epoch() -> None:
    def end(epoch: int) -> None:
        data = end_txn_marker(committed=False, producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=0, timestamp=1)
        after(header(0, epoch=epoch, transactional=True)).check_marker(read_header(data), parse_marker(data), transaction_version=2)

    end(LAST_EPOCH)
    with pytest.raises(Rejected):
        end(LAST_EPOCH - 1)

"""The fast check of a producer's next batch agrees with the full rules; verification guards; transaction markers.

The rules of sequences, epochs and duplicates are tested in test_idempotence_rules.py, over crashes and restarts.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.producer_state import LAST_EPOCH, Origin, ProducerState
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import BatchHeader, read_header
from ottla.protocol.records.control import end_txn_marker, parse_marker
from ottla.protocol.records.record import SimpleRecord, build_batch

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
def test_a_next_batch_is_no_duplicate_and_valid(written: list[BatchHeader], batch: BatchHeader) -> None:
    state = ProducerState()
    for offset, earlier in enumerate(written):
        with contextlib.suppress(Rejected):
            state.check_batch(earlier, Origin.CLIENT)
            state.apply_batch(earlier, 100 * offset)
    if state.follows_last_batch(batch):
        assert state.find_duplicate_in_memory(batch) is None
    if state.is_next_non_transactional(batch):
        assert state.follows_last_batch(batch)
        state.check_batch(batch, Origin.CLIENT)


def test_a_batch_with_the_next_sequence_is_next() -> None:
    state = after(header(0, 2), header(2, 3))
    assert state.is_next_non_transactional(header(5, 10))
    for other in (header(2, 3), header(4), header(6), header(5, epoch=1), header(5, transactional=True), header(5, producer_id=8)):
        assert not state.is_next_non_transactional(other)


def test_a_transactional_batch_is_never_next() -> None:
    state = after(header(0), header(1, transactional=True))
    assert not state.is_next_non_transactional(header(2))
    assert not state.is_next_non_transactional(header(2, transactional=True))
    assert state.follows_last_batch(header(2, transactional=True))
    assert not state.follows_last_batch(header(1, transactional=True))


def test_a_transaction_of_the_last_epoch_ends_in_that_epoch() -> None:
    def end(epoch: int) -> None:
        data = end_txn_marker(committed=False, producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=0, timestamp=1)
        after(header(0, epoch=epoch, transactional=True)).check_marker(read_header(data), parse_marker(data), transaction_version=2)

    end(LAST_EPOCH)
    with pytest.raises(Rejected):
        end(LAST_EPOCH - 1)


def opens(state: ProducerState, guard: VerificationGuard | None, epoch: int = 0, sequence: int = 0) -> ErrorCode:
    """Return the error of a batch that would begin a transaction; NONE if it is accepted."""
    batch = header(sequence, epoch=epoch, transactional=True)
    try:
        state.check_verified(batch, guard)
        state.check_batch(batch, Origin.CLIENT)
    except Rejected as refused:
        return refused.code
    return ErrorCode.NONE


def end(state: ProducerState, epoch: int) -> None:
    data = end_txn_marker(committed=False, producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=0, timestamp=0)
    state.apply_marker(read_header(data), parse_marker(data), 50)


def started(state: ProducerState, epoch: int = 0, sequence: int = 0, *, supports_epoch_bump: bool = False) -> VerificationGuard:
    guard = state.start_verification(PRODUCER, epoch, sequence, supports_epoch_bump=supports_epoch_bump, now_ms=0)
    assert guard is not None
    return guard


def test_a_transaction_starts_only_with_its_verification_guard() -> None:
    state = ProducerState()
    assert opens(state, None) is ErrorCode.INVALID_TXN_STATE
    guard = started(state)
    assert opens(state, None) is ErrorCode.INVALID_TXN_STATE
    assert opens(state, guard) is ErrorCode.NONE


def test_a_guard_from_before_an_abort_starts_no_transaction() -> None:
    state = ProducerState()
    stale = started(state)
    end(state, epoch=0)
    assert opens(state, stale) is ErrorCode.INVALID_TXN_STATE
    fresh = started(state)
    assert (opens(state, stale), opens(state, fresh)) == (ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE)


@pytest.mark.parametrize(("supports_epoch_bump", "expected"), [(True, ErrorCode.NONE), (False, ErrorCode.INVALID_TXN_STATE)])
def test_the_previous_transactions_marker_keeps_the_next_guard_in_version_2(supports_epoch_bump: bool, expected: ErrorCode) -> None:
    state = ProducerState()
    next_one = started(state, epoch=1, supports_epoch_bump=supports_epoch_bump)
    end(state, epoch=1)
    assert opens(state, next_one, epoch=1) is expected


def test_the_first_batch_ends_the_verification() -> None:
    state = ProducerState()
    guard = started(state)
    state.apply_batch(header(0, transactional=True), 0)
    assert state.start_verification(PRODUCER, 0, 1, supports_epoch_bump=False, now_ms=0) is None
    assert opens(state, None, sequence=1) is ErrorCode.NONE
    end(state, epoch=0)
    assert opens(state, guard, sequence=1) is ErrorCode.INVALID_TXN_STATE


def test_an_old_epoch_is_checked_before_the_guard() -> None:
    state = after(header(0, epoch=1))
    assert opens(state, None, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(Rejected):
        state.start_verification(PRODUCER, 0, 0, supports_epoch_bump=False, now_ms=0)


def test_batches_that_wait_for_verification_keep_their_order() -> None:
    state = ProducerState()
    assert started(state, sequence=5) is started(state, sequence=3)
    assert opens(state, started(state, sequence=5), sequence=5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert opens(state, started(state, sequence=5), sequence=3) is ErrorCode.NONE


def test_an_unused_verification_expires_with_its_producer() -> None:
    state = ProducerState()
    guard = started(state)
    state.expire(99, 100)
    assert opens(state, guard) is ErrorCode.NONE
    state.expire(100, 100)
    assert opens(state, guard) is ErrorCode.INVALID_TXN_STATE


def test_a_verification_survives_a_truncation() -> None:
    state = ProducerState()
    guard = started(state)
    state.load((), 0)
    assert opens(state, guard) is ErrorCode.NONE

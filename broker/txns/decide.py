"""What each request does to a transactional id: pure decisions, evaluated one at a time (Kafka's `TransactionCoordinator`).

Each function gets the stored `Transaction` (None: unknown id) and returns a `Decision`: an answer, and the value to append, if any.
Errors are the newest ones (PRODUCER_FENCED); handlers translate them for older versions. Nothing is pending between a decision and its
append here, so CONCURRENT_TRANSACTIONS means only that markers are still to be written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.txns.states import PREPARED, TxnState
from broker.txns.transaction import (
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
    epoch_exhausted,
)
from protocol.error_codes import ErrorCode

NewProducerId = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Decision:
    """`write`: the transaction's next value, to be appended and applied before the answer. `error`: what the client is told then."""

    error: ErrorCode = ErrorCode.NONE
    write: Transaction | None = None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Expected:
    """The (producer id, epoch) that an InitProducerId of v3 and later says it holds (KIP-360)."""

    producer_id: int
    producer_epoch: int


def _refused(error: ErrorCode) -> Decision:
    return Decision(error)


def init_producer_id(
    stored: Transaction | None,
    transactional_id: str,
    expected: Expected | None,
    *,
    timeout_ms: int,
    timeout_ms_max: int,
    server_version: int,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> Decision:
    """Give the caller the next epoch, and make every earlier holder of the id a zombie (3.2 of the semantics; KIP-98, KIP-360)."""
    if not transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    if not 0 < timeout_ms <= timeout_ms_max:
        return _refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    txn = stored or Transaction(transactional_id, new_producer_id(), timeout_ms=timeout_ms)
    if expected is not None and not _may_hold(txn, expected):
        return _refused(ErrorCode.PRODUCER_FENCED)
    if txn.state in PREPARED:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if txn.state is TxnState.ONGOING:
        # The answer is "retry" even when all goes well: the retry finds the abort complete and gets an epoch of its own.
        return Decision(ErrorCode.CONCURRENT_TRANSACTIONS, write=fence_and_abort(txn, server_version, now_ms))
    return _next_epoch(txn, expected, timeout_ms, new_producer_id, now_ms)


def _may_hold(txn: Transaction, expected: Expected) -> bool:
    """The epoch itself is judged later; here only whether the producer id can be the caller's."""
    if txn.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == txn.producer_id:
        return True
    return expected.producer_id == txn.prev_producer_id and epoch_exhausted(expected.producer_epoch)


def _next_epoch(txn: Transaction, expected: Expected | None, timeout_ms: int, new_producer_id: NewProducerId, now_ms: int) -> Decision:
    epoch = txn.producer_epoch
    held = None if expected is None else expected.producer_epoch
    if epoch_exhausted(epoch) and held in (None, epoch):
        last_epoch = NO_PRODUCER_EPOCH if held is None else epoch
        after = txn.rotated(new_producer_id(), last_epoch, timeout_ms, now_ms)
    elif held is None:
        after = txn.initialised(epoch + 1, NO_PRODUCER_EPOCH, timeout_ms, now_ms)
    elif epoch in (held, NO_PRODUCER_EPOCH):
        after = txn.initialised(epoch + 1, epoch, timeout_ms, now_ms)
    elif held == txn.last_producer_epoch:
        after = txn.initialised(epoch, txn.last_producer_epoch, timeout_ms, now_ms)  # a retry of an answer that was lost
    else:
        return _refused(ErrorCode.PRODUCER_FENCED)
    return Decision(write=after, producer_id=after.producer_id, producer_epoch=after.producer_epoch)


def fence_and_abort(txn: Transaction, server_version: int, now_ms: int) -> Transaction:
    """The coordinator itself ends an open transaction: its timeout passed, or another producer took the id."""
    return txn.fenced().prepared(TxnState.PREPARE_ABORT, server_version, NO_PRODUCER_ID, now_ms)


def _holder_error(txn: Transaction | None, transactional_id: str, producer_id: int, epoch: int) -> ErrorCode:
    """The checks that every request of a producer passes first (4.2)."""
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    if txn is None or txn.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if txn.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if txn.state in PREPARED else ErrorCode.NONE


def add_partitions(
    txn: Transaction | None,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: frozenset[TopicPartition],
    *,
    client_version: int,
    now_ms: int,
) -> Decision:
    """Open the transaction or widen it (AddPartitionsToTxn, AddOffsetsToTxn, and what Produce and TxnOffsetCommit add in version 2)."""
    error = _holder_error(txn, transactional_id, producer_id, epoch)
    if error is not ErrorCode.NONE or txn is None:
        return _refused(error)
    if txn.state is TxnState.ONGOING and partitions <= txn.partitions:
        return Decision(producer_id=producer_id, producer_epoch=epoch)
    return Decision(write=txn.with_partitions(partitions, client_version, now_ms), producer_id=producer_id, producer_epoch=epoch)


def verify_partitions(
    txn: Transaction | None, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Is each partition part of the open transaction (KIP-890 part 1)? A missing one is TRANSACTION_ABORTABLE."""
    error = _holder_error(txn, transactional_id, producer_id, epoch)
    if error is not ErrorCode.NONE or txn is None:
        return dict.fromkeys(partitions, error)
    return {p: ErrorCode.NONE if p in txn.partitions else ErrorCode.TRANSACTION_ABORTABLE for p in partitions}


def end_txn(
    txn: Transaction | None,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    *,
    commit: bool,
    client_version: int,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> Decision:
    """Commit or abort for the producer (4.6 for version 0 and 1, 4.7 for version 2)."""
    if not transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    if txn is None:
        return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    retry_after_rotation = txn.bumps_epochs and txn.prev_producer_id == producer_id and epoch == EPOCH_MAX - 1 and txn.producer_epoch == 0
    retry = retry_after_rotation or (txn.bumps_epochs and txn.producer_epoch == epoch + 1)
    if txn.producer_id != producer_id and not retry_after_rotation:
        return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not _end_epoch_valid(txn, epoch, retry):
        return _refused(ErrorCode.PRODUCER_FENCED)
    if txn.state is TxnState.ONGOING or _is_empty_abort(txn, commit, client_version, retry):
        return _prepare(txn, commit, client_version, new_producer_id, now_ms)
    error = _END_AGAIN[txn.state][0 if commit else 1]
    if error is not ErrorCode.NONE:
        return _refused(error)
    if txn.bumps_epochs and not retry:
        return _refused(ErrorCode.INVALID_TXN_STATE)  # a commit of a next transaction that was never begun
    return Decision(producer_id=txn.producer_id, producer_epoch=txn.producer_epoch)


_END_AGAIN: dict[TxnState, tuple[ErrorCode, ErrorCode]] = {
    TxnState.EMPTY: (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    TxnState.PREPARE_COMMIT: (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE),
    TxnState.PREPARE_ABORT: (ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS),
    TxnState.COMPLETE_COMMIT: (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
    TxnState.COMPLETE_ABORT: (ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE),
}
"""EndTxn where no transaction is open: what (commit, abort) are told. NONE is the answer to a retry."""


def _end_epoch_valid(txn: Transaction, epoch: int, retry: bool) -> bool:
    if not txn.bumps_epochs:
        return epoch == txn.producer_epoch
    if txn.state in PREPARED:
        return retry
    if txn.state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT):
        return retry or epoch == txn.producer_epoch
    return epoch == txn.producer_epoch


def _is_empty_abort(txn: Transaction, commit: bool, client_version: int, retry: bool) -> bool:
    """Version 2 lets a producer abort before any partition was added, to get a new epoch."""
    if commit or client_version < 2 or retry:
        return False
    return txn.state in (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)


def _prepare(txn: Transaction, commit: bool, client_version: int, new_producer_id: NewProducerId, now_ms: int) -> Decision:
    state = TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT
    rotate = client_version >= 2 and epoch_exhausted(txn.producer_epoch)
    prepared = txn.prepared(state, client_version, new_producer_id() if rotate else NO_PRODUCER_ID, now_ms)
    if rotate:
        return Decision(write=prepared, producer_id=prepared.next_producer_id, producer_epoch=0)
    return Decision(write=prepared, producer_id=prepared.producer_id, producer_epoch=prepared.producer_epoch)

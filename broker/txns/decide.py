"""Decides what each request does to a transactional id (Kafka's `TransactionCoordinator`). Pure code.

Each function gets the stored `Transaction` (None: unknown id) and returns a `Decision`: a response, and the value to append, if any. Errors
are the newest ones (PRODUCER_FENCED); handlers translate them for older versions.

CONCURRENT_TRANSACTIONS means that the markers of the last transaction are not all written yet. It is checked before producer id and epoch,
because of rotation, the change to a new producer id when the epochs are exhausted: a producer that ends a transaction gets its new id at
once, but the stored id changes only when all markers are written (KAFKA-18660).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.broker.txns.states import PREPARED, TxnState
from ottla.broker.txns.transaction import (
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
    epoch_exhausted,
)
from ottla.protocol.error_codes import ErrorCode

NewProducerId = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a decision: `error` and the producer id and epoch are for the response. `write` is the transaction's next value, which
    is appended and applied before the response is sent; None if it does not change."""

    error: ErrorCode = ErrorCode.NONE
    write: Transaction | None = None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Expected:
    """The (producer id, epoch) that the client of an InitProducerId request of version 3 or later says it has (KIP-360)."""

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
    """Decide an InitProducerId: give the producer the next epoch, which fences all earlier producers of the transactional id (KIP-98,
    KIP-360). If a transaction is open, abort it instead; the response is then CONCURRENT_TRANSACTIONS, and the client retries."""
    if not transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    if not 0 < timeout_ms <= timeout_ms_max:
        return _refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    txn = stored or Transaction(transactional_id, new_producer_id(), timeout_ms=timeout_ms)
    if txn.state in PREPARED:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_hold(txn, expected):
        return _refused(ErrorCode.PRODUCER_FENCED)
    if txn.state is TxnState.ONGOING:
        # The error makes the client retry, although the abort was decided: the retry finds the abort complete and gets a new epoch.
        return Decision(ErrorCode.CONCURRENT_TRANSACTIONS, write=fence_and_abort(txn, server_version, new_producer_id, now_ms))
    return _next_epoch(txn, expected, timeout_ms, new_producer_id, now_ms)


def _may_hold(txn: Transaction, expected: Expected) -> bool:
    """Return whether the client's producer id is acceptable. It is if it is the stored one, if it is the previous one that was replaced
    because its epochs were exhausted, or if no epoch was assigned yet. `_next_epoch` checks the client's epoch."""
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
        after = txn.initialised(epoch, txn.last_producer_epoch, timeout_ms, now_ms)  # a retry, because the response was lost
    else:
        return _refused(ErrorCode.PRODUCER_FENCED)
    return Decision(write=after, producer_id=after.producer_id, producer_epoch=after.producer_epoch)


def fence_and_abort(txn: Transaction, server_version: int, new_producer_id: NewProducerId, now_ms: int) -> Transaction:
    """Return the next state of an open transaction that the coordinator aborts, because it timed out or another producer has begun to use
    the transactional id.

    The abort bumps the epoch, which fences the producer. In transaction version 2 every abort does so. In versions 0 and 1 the bump is a
    separate step before the abort; in version 2 that step would overflow at the last epoch (KAFKA-19367, KAFKA-20090).
    """
    if server_version >= 2:
        return _prepared_with_bump(txn, False, new_producer_id, now_ms)
    return txn.fenced().prepared(commit=False, now_ms=now_ms)


def _holder_error(txn: Transaction, producer_id: int, epoch: int) -> ErrorCode:
    if txn.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if txn.producer_epoch == epoch else ErrorCode.PRODUCER_FENCED


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
    """Decide a request that adds partitions to a transaction: AddPartitionsToTxn, AddOffsetsToTxn or, with transaction version 2, Produce
    and TxnOffsetCommit. The first partitions begin the transaction."""
    if not transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    if txn is None:
        return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if txn.state in PREPARED:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    error = _holder_error(txn, producer_id, epoch)
    if error is not ErrorCode.NONE:
        return _refused(error)
    if txn.state is TxnState.ONGOING and partitions <= txn.partitions:
        return Decision(producer_id=producer_id, producer_epoch=epoch)
    return Decision(write=txn.with_partitions(partitions, client_version, now_ms), producer_id=producer_id, producer_epoch=epoch)


def verify_partitions(
    txn: Transaction | None, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Return an error code for each partition: NONE if the transaction has it, TRANSACTION_ABORTABLE if not (KIP-890 part 1). All
    partitions get the same error if the transactional id, producer id or epoch is wrong, or if the transaction is being completed.
    """
    error = _verify_error(txn, transactional_id, producer_id, epoch)
    if txn is None or error is not ErrorCode.NONE:
        return dict.fromkeys(partitions, error)
    return {p: ErrorCode.NONE if p in txn.partitions else ErrorCode.TRANSACTION_ABORTABLE for p in partitions}


def _verify_error(txn: Transaction | None, transactional_id: str, producer_id: int, epoch: int) -> ErrorCode:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    if txn is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    error = _holder_error(txn, producer_id, epoch)
    if error is ErrorCode.NONE and txn.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return error


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
    """Decide an EndTxn by the rules of `client_version`, the transaction version that the request's API version implies, even if the
    transaction was begun under another version."""
    if not transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    if txn is None:
        return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if client_version >= 2:
        return _end_with_bump(txn, (producer_id, epoch), commit, new_producer_id, now_ms)
    return _end(txn, producer_id, epoch, commit, now_ms)


_END_AGAIN: dict[TxnState, tuple[ErrorCode, ErrorCode]] = {
    TxnState.EMPTY: (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    TxnState.PREPARE_COMMIT: (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE),
    TxnState.PREPARE_ABORT: (ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS),
    TxnState.COMPLETE_COMMIT: (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
    TxnState.COMPLETE_ABORT: (ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE),
}
"""The error codes of an EndTxn that finds no open transaction, by the transactional id's state: one for a commit and one for an abort. NONE
means that the request is a retry of the EndTxn that led to this state."""


def _end_again(txn: Transaction, commit: bool) -> Decision:
    error = _END_AGAIN[txn.state][0 if commit else 1]
    if error is not ErrorCode.NONE:
        return _refused(error)
    return Decision(producer_id=txn.producer_id, producer_epoch=txn.producer_epoch)


def _end(txn: Transaction, producer_id: int, epoch: int, commit: bool, now_ms: int) -> Decision:
    """Decide an EndTxn of transaction version 0 or 1. The epoch is not bumped, so a delayed EndTxn cannot be distinguished from the EndTxn
    of the next transaction."""
    error = _holder_error(txn, producer_id, epoch)
    if error is not ErrorCode.NONE:
        return _refused(error)
    if txn.state is not TxnState.ONGOING:
        return _end_again(txn, commit)
    return Decision(write=txn.prepared(commit=commit, now_ms=now_ms), producer_id=producer_id, producer_epoch=epoch)


def _end_with_bump(txn: Transaction, holder: tuple[int, int], commit: bool, new_producer_id: NewProducerId, now_ms: int) -> Decision:
    """Decide an EndTxn of transaction version 2; `holder` is the request's (producer id, epoch). A request with the epoch before the stored
    one is a retry; one with the stored epoch ends the current transaction."""
    producer_id, epoch = holder
    if txn.state in PREPARED and holder == txn.holder:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    after_rotation = txn.prev_producer_id == producer_id and epoch == EPOCH_MAX - 1 and txn.producer_epoch == 0
    retry = after_rotation or txn.producer_epoch == epoch + 1
    if retry and txn.producer_epoch == EPOCH_MAX and txn.state not in PREPARED:
        return _refused(ErrorCode.PRODUCER_FENCED)  # only the coordinator uses this epoch, for its aborts in version 0 or 1
    if txn.producer_id != producer_id and not after_rotation:
        return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not _may_end(txn.state, current=epoch == txn.producer_epoch, retry=retry):
        return _refused(ErrorCode.PRODUCER_FENCED)
    if txn.state is TxnState.ONGOING or (not commit and not retry):
        # A producer may abort without an open transaction, to get a new epoch.
        after = _prepared_with_bump(txn, commit, new_producer_id, now_ms)
        return Decision(ErrorCode.NONE, after, *after.holder)
    return _end_again(txn, commit) if retry else _refused(ErrorCode.INVALID_TXN_STATE)


def _may_end(state: TxnState, *, current: bool, retry: bool) -> bool:
    if state in PREPARED:
        return retry
    if state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT):
        return retry or current
    return current


def _prepared_with_bump(txn: Transaction, commit: bool, new_producer_id: NewProducerId, now_ms: int) -> Transaction:
    next_id = new_producer_id() if epoch_exhausted(txn.producer_epoch) else NO_PRODUCER_ID
    return txn.prepared_with_bump(next_id, commit=commit, now_ms=now_ms)

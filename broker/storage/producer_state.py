"""The state of a partition's producers, and the rules of idempotence (Kafka's ProducerStateManager, ProducerAppendInfo).

A pure state machine: checks change nothing; `apply_…` methods change state and never fail, and a replay of the log calls the same methods
in the same order. `_ongoing` (first offset to producer id) has the open transactions, `_unreplicated` (first offset to marker offset) the
ended ones whose marker is not below the high watermark yet. Transactions begin in log order, so the first key of `_ongoing` is the least.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import TRANSACTIONAL, BatchHeader
from ottla.protocol.records.control import ControlType, Marker
from ottla.protocol.records.sequence import decrement_sequence, increment_sequence

BATCHES_REMEMBERED: Final = 5
"""The number of a producer's newest batches that are recognized as duplicates when they are sent again: the deduplication window
(ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""
NO_EPOCH: Final = -1
LAST_EPOCH: Final = 32767
NO_OFFSET: Final = -1
_FAR: Final = 2**30
"""Half of the 2^31 sequences after which numbers wrap around. A sequence that precedes another by less than this is older."""


_new_tuple = tuple.__new__
"""A faster way to make a named tuple from a tuple of its fields: the named tuple's own constructor calls `tuple.__new__` only after binding
its arguments."""


class Origin(Enum):
    """The writer of a batch, which decides how it is checked (AppendOrigin). A client's batch must pass all checks of this module, a
    coordinator's batch all but the sequence check. A leader's batch, which a follower fetched, is not checked again."""

    CLIENT = 1
    COORDINATOR = 2
    REPLICATION = 3


class BatchMetadata(NamedTuple):
    """A batch of a producer's deduplication window, the last five batches. `offset_delta` is the last minus the first offset, `timestamp`
    the batch's greatest timestamp in ms."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerStateEntry:
    """One producer id's state in one partition. In every field, -1 means that there is no value, as in a snapshot file."""

    producer_id: int
    producer_epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_txn_first_offset: int = NO_OFFSET
    batches: list[BatchMetadata] = field(default_factory=list)
    """The newest batches, oldest first. No deque: an empty one takes 760 bytes, and 100,000 producers are not rare."""
    older_in_log: bool = field(default=False, compare=False)
    """True after loading from a snapshot, which has only the newest batch: earlier batches must be looked up in the log."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def maybe_update_epoch(self, epoch: int) -> None:
        """Set the producer's epoch; a new epoch starts with an empty deduplication window."""
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches.clear()

    def may_repeat_older(self, batch: BatchHeader) -> bool:
        """Return whether `batch` precedes all batches in memory, so that only the log shows whether it is a duplicate."""
        if not self.older_in_log or batch.producer_epoch != self.producer_epoch or not 0 < len(self.batches) < BATCHES_REMEMBERED:
            return False
        return 0 < decrement_sequence(self.batches[0].first_sequence, batch.last_sequence) < _FAR

    def remember_older(self, batch: BatchHeader) -> bool:
        """Add `batch`, read from the log, in front of the known batches. Return False if it is not part of the deduplication window.

        Its sequence must directly precede the oldest known batch's: batches before a gap were written before the producer expired.
        """
        if len(self.batches) == BATCHES_REMEMBERED or batch.producer_epoch != self.producer_epoch or batch.base_sequence < 0:
            return False
        if increment_sequence(batch.last_sequence, 1) != self.batches[0].first_sequence:
            return False
        self.batches.insert(0, BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp))
        return True


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended, in one partition. `last_offset` is the marker's offset."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """The state of all producers of one partition, after the batches below `end_offset`."""

    __slots__ = ("_entries", "_guards", "_ongoing", "_unreplicated", "end_offset")

    def __init__(self) -> None:
        self._entries: dict[int, ProducerStateEntry] = {}
        self._guards: dict[int, VerificationGuard] = {}
        self._ongoing: dict[int, int] = {}
        self._unreplicated: dict[int, int] = {}
        self.end_offset = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerStateEntry]:
        return iter(list(self._entries.values()))

    def get(self, producer_id: int) -> ProducerStateEntry | None:
        return self._entries.get(producer_id)

    # --- checks ----------------------------------------------------------------------------------------------------------------

    def is_next_non_transactional(self, batch: BatchHeader) -> bool:
        """Return whether a non-transactional data batch directly follows its producer's last one; if so, it is valid and no duplicate.

        Nearly every batch passes this check, which takes a third of the time of `find_duplicate_in_memory` and `check_batch`.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.producer_epoch != batch.producer_epoch or not entry.batches or batch.attributes & TRANSACTIONAL:
            return False
        last = entry.batches[-1].last_sequence
        return 0 <= last == batch.base_sequence - 1 and entry.current_txn_first_offset == NO_OFFSET

    def follows_last_batch(self, batch: BatchHeader) -> bool:
        """Return whether a data batch directly follows its producer's last batch, and so cannot be a duplicate. The first batch of a
        transaction nearly always does.

        A duplicate has the first sequence of one of the five known batches, which span far fewer than the 2^31 sequences after which
        sequence numbers wrap around.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.producer_epoch != batch.producer_epoch or not entry.batches:
            return False
        return 0 <= entry.batches[-1].last_sequence == batch.base_sequence - 1

    def find_duplicate_in_memory(self, batch: BatchHeader) -> BatchMetadata | None:
        """Return the batch in memory of which `batch` is a duplicate (same epoch, first and last sequence), None if there is none."""
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.producer_epoch != batch.producer_epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for known in entry.batches:
            if known.last_sequence == last and known.first_sequence == first:
                return known
        return None

    def check_verified(self, batch: BatchHeader, guard: VerificationGuard | None) -> None:
        """Raise `Rejected` for a transactional batch that would begin a transaction which the coordinator has not confirmed (KIP-890):
        INVALID_TXN_STATE, or INVALID_PRODUCER_EPOCH for an old epoch.

        `guard` is the one that `start_verification` returned before the coordinator was asked, None if it was not asked.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is not None:
            if entry.current_txn_first_offset != NO_OFFSET and entry.producer_epoch == batch.producer_epoch:
                return
            self._check_epoch(entry, batch.producer_epoch)
        if guard is None or self._guards.get(batch.producer_id) is not guard:
            raise Rejected(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")

    def check_batch(self, batch: BatchHeader, origin: Origin) -> None:
        """Raise `Rejected` for a data batch with a wrong epoch (INVALID_PRODUCER_EPOCH), a wrong sequence (OUT_OF_ORDER_SEQUENCE_NUMBER),
        or without a transaction although one is open (INVALID_TXN_STATE). The caller has already checked that the batch is no duplicate,
        because a duplicate has a wrong sequence, too. `origin` is CLIENT or COORDINATOR: batches from a leader are not checked again."""
        guard = self._guards.get(batch.producer_id) if origin is Origin.CLIENT else None
        entry = self._entries.get(batch.producer_id)
        if guard is not None:
            self._check_first(guard, batch, known=entry is not None)
        if entry is None:
            if batch.producer_epoch < NO_EPOCH:
                raise Rejected(ErrorCode.INVALID_PRODUCER_EPOCH, f"producer {batch.producer_id} has the epoch {batch.producer_epoch}")
            return
        self._check_epoch(entry, batch.producer_epoch)
        if origin is Origin.CLIENT:
            self._check_sequence(entry, batch)
        if entry.current_txn_first_offset != NO_OFFSET and not batch.is_transactional:
            raise Rejected(
                ErrorCode.INVALID_TXN_STATE, f"producer {batch.producer_id} has an open transaction; its batch is not transactional"
            )

    @staticmethod
    def _check_first(guard: VerificationGuard, batch: BatchHeader, *, known: bool) -> None:
        """Raise Rejected(OUT_OF_ORDER_SEQUENCE_NUMBER) for a transaction's first batch with a wrong sequence (KIP-890).

        A producer of transaction version 2 begins every transaction with a new epoch and sequence 0, so an unknown producer (`known` is
        false) must send 0. No batch may be written before another waiting batch with a lower sequence.
        """
        if guard.supports_epoch_bump and not known and batch.base_sequence != 0:
            message = f"producer {batch.producer_id} begins with sequence {batch.base_sequence}, not 0"
            raise Rejected(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)
        if batch.base_sequence > guard.lowest_sequence:
            message = f"producer {batch.producer_id}: sequence {batch.base_sequence} before {guard.lowest_sequence}"
            raise Rejected(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)

    @staticmethod
    def _check_epoch(entry: ProducerStateEntry, epoch: int) -> None:
        if epoch < entry.producer_epoch:
            message = f"epoch {epoch} of producer {entry.producer_id} is older than {entry.producer_epoch}"
            raise Rejected(ErrorCode.INVALID_PRODUCER_EPOCH, message)

    @staticmethod
    def _check_sequence(entry: ProducerStateEntry, batch: BatchHeader) -> None:
        if batch.producer_epoch != entry.producer_epoch:
            if batch.base_sequence != 0 and entry.producer_epoch != NO_EPOCH:
                message = f"producer {batch.producer_id} begins epoch {batch.producer_epoch} with sequence {batch.base_sequence}, not 0"
                raise Rejected(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)
            return
        last = entry.last_sequence
        expected = 0 if last < 0 else increment_sequence(last, 1)
        if batch.base_sequence != expected:
            message = f"producer {batch.producer_id} epoch {batch.producer_epoch}: sequence {batch.base_sequence} where {expected} is next"
            raise Rejected(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether this producer has an open transaction in this partition, begun in this epoch."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.producer_epoch == epoch and entry.current_txn_first_offset != NO_OFFSET

    def check_marker(self, batch: BatchHeader, marker: Marker, transaction_version: int) -> None:
        """Raise `Rejected` for a transaction marker with an old producer epoch (INVALID_PRODUCER_EPOCH) or coordinator epoch
        (TRANSACTION_COORDINATOR_FENCED). Source: Kafka's ProducerAppendInfo.appendEndTxnMarker.

        From transaction version 2 on a marker has a later epoch than its transaction. A marker with the stored epoch belongs to an earlier
        transaction, so it is rejected while a transaction is open (KIP-890). The last epoch, 32767, is an exception: Kafka 4.0 could leave
        a transaction open in it, and no later epoch exists (Kafka's ProducerAppendInfo.checkProducerEpoch).
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            return
        self._check_epoch(entry, batch.producer_epoch)
        is_open = entry.current_txn_first_offset != NO_OFFSET
        if transaction_version >= 2 and is_open and batch.producer_epoch == entry.producer_epoch != LAST_EPOCH:
            message = f"marker of producer {batch.producer_id} has the epoch {batch.producer_epoch} of the transaction it ends"
            raise Rejected(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            message = f"coordinator epoch {marker.coordinator_epoch} is older than {entry.coordinator_epoch}"
            raise Rejected(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)

    # --- verification (KIP-890) -------------------------------------------------------------------------------------------------

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """Return a guard, which the transaction's first batch needs: it may be appended once the coordinator has confirmed the transaction.

        Return None if the transaction is already open in this partition, so that no verification is needed. Concurrent callers get the same
        guard. `supports_epoch_bump` is true for a producer of transaction version 2. Raises Rejected(INVALID_PRODUCER_EPOCH) for an old
        epoch (UnifiedLog.maybeStartTransactionVerification).
        """
        entry = self._entries.get(producer_id)
        if entry is not None:
            if entry.current_txn_first_offset != NO_OFFSET and entry.producer_epoch == epoch:
                return None
            self._check_epoch(entry, epoch)
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = VerificationGuard(now_ms, epoch, sequence, supports_epoch_bump)
        else:
            guard.add_waiting_batch(epoch, sequence)
        return guard

    # --- changes ---------------------------------------------------------------------------------------------------------------

    def apply_batch(self, batch: BatchHeader, base_offset: int) -> None:
        """Update the producer's state for its data batch that was written at `base_offset`. A transactional batch begins a transaction if
        none is open."""
        producer_id = batch.producer_id
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerStateEntry(producer_id)
        if entry.producer_epoch != batch.producer_epoch:
            entry.maybe_update_epoch(batch.producer_epoch)
        delta = batch.last_offset_delta
        batches = entry.batches
        batches.append(_new_tuple(BatchMetadata, (batch.last_sequence, base_offset + delta, delta, batch.max_timestamp)))
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
        entry.last_timestamp = batch.max_timestamp
        if batch.attributes & TRANSACTIONAL:
            if self._guards:
                self._guards.pop(producer_id, None)
            if entry.current_txn_first_offset == NO_OFFSET:
                entry.current_txn_first_offset = base_offset
                self._ongoing[base_offset] = producer_id

    def apply_marker(self, batch: BatchHeader, marker: Marker, offset: int) -> CompletedTxn | None:
        """Apply a marker that was written at `offset`. Return the transaction that it completes, if one was open.

        The marker also removes the producer's `VerificationGuard`. Exception: with transaction version 2, a guard with the marker's epoch
        belongs to the next transaction, which the producer may begin before the previous one's markers are written (Kafka's
        UnifiedLog.updateProducers).
        """
        guard = self._guards.get(batch.producer_id)
        if guard is not None and not (guard.supports_epoch_bump and guard.epoch == batch.producer_epoch):
            del self._guards[batch.producer_id]
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            entry = self._entries[batch.producer_id] = ProducerStateEntry(batch.producer_id)
        entry.maybe_update_epoch(batch.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = marker.timestamp
        first = entry.current_txn_first_offset
        if first == NO_OFFSET:
            return None
        entry.current_txn_first_offset = NO_OFFSET
        del self._ongoing[first]
        self._unreplicated[first] = offset
        return CompletedTxn(batch.producer_id, first, offset, marker.type is ControlType.ABORT)

    def replay(self, batch: BatchHeader, marker: Marker | None) -> CompletedTxn | None:
        """Apply a batch of the log without checks. `marker` is given for a control batch that ends a transaction."""
        if not batch.has_producer_id or (batch.is_control and marker is None):
            return None
        if marker is not None:
            return self.apply_marker(batch, marker, batch.last_offset)
        self.apply_batch(batch, batch.base_offset)
        return None

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """Return the last stable offset once the marker of `completed` is replicated, for the transaction index: the first offset of the
        oldest open transaction, otherwise the offset after the marker (ProducerStateManager.lastStableOffset)."""
        return next(iter(self._ongoing), completed.last_offset + 1)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or whose marker is not below the high watermark yet; None without such a
        transaction."""
        if not self._ongoing and not self._unreplicated:
            return None
        return min([*self._unreplicated, next(iter(self._ongoing), 2**63 - 1)])

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget ended transactions whose markers are below the high watermark: they no longer hold back the last stable offset."""
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}

    def on_log_start_offset_incremented(self, offset: int) -> None:
        """Forget ended transactions whose markers are below `offset`, the new log start."""
        self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= offset}

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers inactive for `expiration_ms` by their records' timestamps, except those with an open transaction. Return the
        number of removed producers.

        Guards of pending transaction verifications (KIP-890) that are older than `expiration_ms` are removed, too.
        """
        self._guards = {producer_id: guard for producer_id, guard in self._guards.items() if now_ms - guard.started_ms < expiration_ms}
        gone = [
            e.producer_id
            for e in self._entries.values()
            if e.current_txn_first_offset == NO_OFFSET and now_ms - e.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self._entries[producer_id]
        return len(gone)

    def load(self, entries: Iterable[ProducerStateEntry], end_offset: int) -> None:
        """Replace the state of all producers by that of a snapshot, taken at `end_offset`. The guards of pending transaction verifications
        (KIP-890) are kept, because they are not part of the log, as in Kafka's ProducerStateManager."""
        self._entries = {entry.producer_id: entry for entry in entries}
        open_txns = [(e.current_txn_first_offset, e.producer_id) for e in self._entries.values() if e.current_txn_first_offset != NO_OFFSET]
        self._ongoing = dict(sorted(open_txns))
        self._unreplicated = {}
        self.end_offset = end_offset

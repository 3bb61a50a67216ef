"""What a partition remembers of its producers, and the rules that make a retry harmless (Kafka's ProducerStateManager, ProducerAppendInfo).

A pure machine: checks change nothing, `apply_…` change state and never refuse, and replaying a log is the same `apply_…` in the same order.
Offsets of transactions: `_ongoing` and `_unreplicated` are keyed by first offset. Transactions start in the order of the log, so the first
key of `_ongoing` is its least.
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
"""Batches that one producer may have in flight and have recognized when it sends them again (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""
NO_EPOCH: Final = -1
LAST_EPOCH: Final = 32767
NO_OFFSET: Final = -1
_FAR: Final = 2**30
"""Of sequences that come again after 2^31: what is less than half of that before another one is older."""


_new_tuple = tuple.__new__
"""What a named tuple's class calls after a function that names the fields."""


class Origin(Enum):
    """Who wrote a batch decides which rules it must pass: all of them, all but sequences, none."""

    CLIENT = 1
    COORDINATOR = 2
    REPLICATION = 3


class BatchMetadata(NamedTuple):
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
    """One producer id's state in one partition. -1 is "none" in every field, as in the snapshot."""

    producer_id: int
    producer_epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_txn_first_offset: int = NO_OFFSET
    batches: list[BatchMetadata] = field(default_factory=list)
    """The newest, oldest first. No deque: an empty one takes 760 bytes, and a hundred thousand producers are not rare."""
    older_in_log: bool = field(default=False, compare=False)
    """From a snapshot, which keeps only the newest batch: those before it are to be looked for in the log when one is sent again."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def take_epoch(self, epoch: int) -> None:
        """A new epoch starts with an empty window."""
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches.clear()

    def may_repeat_older(self, batch: BatchHeader) -> bool:
        """Whether a batch lies before those remembered, and only the log can tell whether it was written."""
        if not self.older_in_log or batch.producer_epoch != self.producer_epoch or not 0 < len(self.batches) < BATCHES_REMEMBERED:
            return False
        return 0 < decrement_sequence(self.batches[0].first_sequence, batch.last_sequence) < _FAR

    def remember_older(self, batch: BatchHeader) -> bool:
        """Puts the batch that the log has before the oldest remembered one in front of it; False when it is not of the window.

        Only one whose sequence leads to that one is: beyond a gap lies what the producer did before it was forgotten.
        """
        if len(self.batches) == BATCHES_REMEMBERED or batch.producer_epoch != self.producer_epoch or batch.base_sequence < 0:
            return False
        if increment_sequence(batch.last_sequence, 1) != self.batches[0].first_sequence:
            return False
        self.batches.insert(0, BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp))
        return True


class CompletedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """All producers of one partition up to (not including) `end_offset`."""

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

    # --- checks (reference 2.2) ------------------------------------------------------------------------------------------------

    def is_next(self, batch: BatchHeader) -> bool:
        """Whether a data batch outside of any transaction follows its producer's last one: then no rule can refuse it, and it repeats none.

        Nearly every batch is so, and this tells it at a third of the cost of both questions below.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.producer_epoch != batch.producer_epoch or not entry.batches or batch.attributes & TRANSACTIONAL:
            return False
        last = entry.batches[-1].last_sequence
        return 0 <= last == batch.base_sequence - 1 and entry.current_txn_first_offset == NO_OFFSET

    def repeats_none(self, batch: BatchHeader) -> bool:
        """Whether a data batch follows its producer's last one, and so repeats none: the first of a transaction does, nearly always.

        (A batch that repeats one of the five remembered begins where one of them does; those cover far less than the 2^31 sequences after
        which numbers come again.)
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.producer_epoch != batch.producer_epoch or not entry.batches:
            return False
        return 0 <= entry.batches[-1].last_sequence == batch.base_sequence - 1

    def find_duplicate(self, batch: BatchHeader) -> BatchMetadata | None:
        """The batch already written that this one repeats: same epoch, same first and same last sequence."""
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.producer_epoch != batch.producer_epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for known in entry.batches:
            if known.last_sequence == last and known.first_sequence == first:
                return known
        return None

    def check_verified(self, batch: BatchHeader, guard: VerificationGuard | None) -> None:
        """Raises `Rejected` for a transactional batch that would open a transaction which its coordinator did not say is there.

        `guard` is that of the question which the coordinator has answered.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is not None:
            if entry.current_txn_first_offset != NO_OFFSET and entry.producer_epoch == batch.producer_epoch:
                return
            self._check_epoch(entry, batch.producer_epoch)
        if guard is None or self._guards.get(batch.producer_id) is not guard:
            raise Rejected(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")

    def check_batch(self, batch: BatchHeader, origin: Origin) -> None:
        """Raises `Rejected` for a data batch that must not be written. Duplicates are to be looked for before."""
        guard = self._guards.get(batch.producer_id) if origin is Origin.CLIENT else None
        entry = self._entries.get(batch.producer_id)
        if guard is not None:
            self._check_first(guard, batch, known=entry is not None)
        if entry is None:
            return
        if origin is Origin.REPLICATION:
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
        """From transaction version 2 on every transaction begins an epoch, hence with sequence 0: of an unknown producer any other sequence
        says that batches before it were lost (KIP-890)."""
        if guard.adds and not known and batch.base_sequence != 0:
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
        """Whether a transaction of this producer in this epoch is open here."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.producer_epoch == epoch and entry.current_txn_first_offset != NO_OFFSET

    def check_marker(self, batch: BatchHeader, marker: Marker, transaction_version: int) -> None:
        """Raises `Rejected` for a transaction marker of a fenced producer or coordinator (reference 2.4).

        From transaction version 2 on every transaction has its own epoch, so a marker of the stored epoch can only be the retry of one that
        was written: it is refused while a transaction is open (KIP-890). But after the last epoch of all, in which Kafka 4.0 could leave
        a transaction, none comes to end it with (KAFKA ProducerAppendInfo.checkProducerEpoch).
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

    def start_verification(self, producer_id: int, epoch: int, sequence: int, *, adds: bool, now_ms: int) -> VerificationGuard | None:
        """The guard to append a transaction's first batch with, once the coordinator has said that the transaction is there.

        None: it is open here, and there is nothing to ask. All who ask at the same time have one guard. Raises `Rejected` for an epoch of
        the past (KAFKA UnifiedLog.maybeStartTransactionVerification).
        """
        entry = self._entries.get(producer_id)
        if entry is not None:
            if entry.current_txn_first_offset != NO_OFFSET and entry.producer_epoch == epoch:
                return None
            self._check_epoch(entry, epoch)
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = VerificationGuard(now_ms, epoch, sequence, adds)
        else:
            guard.saw(epoch, sequence)
        return guard

    # --- changes ---------------------------------------------------------------------------------------------------------------

    def apply_batch(self, batch: BatchHeader, base_offset: int) -> None:
        """A data batch of a producer was written at `base_offset`."""
        producer_id = batch.producer_id
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerStateEntry(producer_id)
        if entry.producer_epoch != batch.producer_epoch:
            entry.take_epoch(batch.producer_epoch)
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
        """A marker was written at `offset`; returns the transaction that it completes, if one was open.

        It also ends what was asked for that transaction. A guard of the marker's own epoch is of the next one, which a producer of
        transaction version 2 begins before the markers of the last have come (KAFKA UnifiedLog.updateProducers).
        """
        guard = self._guards.get(batch.producer_id)
        if guard is not None and not (guard.adds and guard.epoch == batch.producer_epoch):
            del self._guards[batch.producer_id]
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            entry = self._entries[batch.producer_id] = ProducerStateEntry(batch.producer_id)
        entry.take_epoch(batch.producer_epoch)
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
        """A batch read back from the log: no checks, the same changes. `marker` is given for a control batch that ends a transaction."""
        if not batch.has_producer_id or (batch.is_control and marker is None):
            return None
        if marker is not None:
            return self.apply_marker(batch, marker, batch.last_offset)
        self.apply_batch(batch, batch.base_offset)
        return None

    def stable_before(self, completed: CompletedTxn) -> int:
        """The last stable offset once `completed` no longer holds it back: what the aborted index notes."""
        return next(iter(self._ongoing), completed.last_offset + 1)

    @property
    def first_unstable_offset(self) -> int | None:
        """The least offset of a transaction that is open, or whose marker is not below the high watermark yet."""
        if not self._ongoing and not self._unreplicated:
            return None
        return min([*self._unreplicated, next(iter(self._ongoing), 2**63 - 1)])

    def passed_high_watermark(self, high_watermark: int) -> None:
        """Transactions whose marker everyone has are finished."""
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}

    def log_started_at(self, offset: int) -> None:
        """The log's beginning went away: finished transactions below it hold nothing back any more."""
        self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= offset}

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers silent for so long by their records' timestamps, but none with an open transaction; returns how many.

        So it does with questions to coordinators that led to no batch.
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
        """Starts again from a snapshot. Questions to coordinators are nothing of the log, and stay, as in KAFKA ProducerStateManager."""
        self._entries = {entry.producer_id: entry for entry in entries}
        open_txns = [(e.current_txn_first_offset, e.producer_id) for e in self._entries.values() if e.current_txn_first_offset != NO_OFFSET]
        self._ongoing = dict(sorted(open_txns))
        self._unreplicated = {}
        self.end_offset = end_offset

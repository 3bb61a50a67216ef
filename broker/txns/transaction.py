"""The state of one transactional id, and its transitions (Kafka's `TransactionMetadata`).

Invariants:
- A `Transaction` is immutable; each method returns the next value, which takes effect when its record is appended.
- Producers get epochs up to 32766. Epoch 32767 is reserved for the coordinator, so that it can always fence.
- `last_producer_epoch` is for the recognition of retries and is not persisted, as in Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.txns.states import PREPARED, VALID_TRANSITIONS, TxnState

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
EPOCH_MAX = 32767

TopicPartition = tuple[str, int]


def epoch_exhausted(epoch: int) -> bool:
    """Return whether a producer with this epoch must get a new producer id, because no further epoch is left for producers."""
    return epoch >= EPOCH_MAX - 1


class Transaction(NamedTuple):
    """The state of one transactional id. Times are wall clock ms; `version` is the transaction version (0, 1, 2) of its last client."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TxnState = TxnState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = NO_TIMESTAMP
    version: int = 0
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    prev_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID

    @property
    def bumps_epochs(self) -> bool:
        """Whether every EndTxn gives the producer a new epoch (transaction version 2, KIP-890)."""
        return self.version >= 2

    @property
    def commits(self) -> bool:
        """Whether the prepared transaction is to be committed (False: aborted)."""
        assert self.state in PREPARED, f"{self.transactional_id} is {self.state.name}: nothing is decided"
        return self.state is TxnState.PREPARE_COMMIT

    @property
    def holder(self) -> tuple[int, int]:
        """The (producer id, epoch) that the producer uses from now on. If a new producer id is prepared, because the epochs are exhausted,
        these are the new id and epoch 0."""
        if self.state in PREPARED and self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    def _moved(self, state: TxnState, now_ms: int, **changes: object) -> Transaction:
        """Return the next state, with `changes` to other fields. If the producer id was replaced earlier, because its epochs were
        exhausted, the old id is forgotten: a late request with it must not abort a transaction of the new one (Kafka's TransactionMetadata
        prepareTransitionTo)."""
        assert state in VALID_TRANSITIONS[self.state], f"{self.transactional_id}: {self.state.name} -> {state.name} is no legal move"
        moved = self._replace(state=state, last_update_ms=now_ms, prev_producer_id=self.producer_id)
        return moved._replace(**changes)  # type: ignore[arg-type]  # the callers below name real fields

    def initialised(self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the state after InitProducerId: the same producer id with `epoch`, and no open transaction. `last_epoch` is the epoch that
        the producer had before, by which a retry is recognized; -1 if unknown.
        """
        return self._moved(
            TxnState.EMPTY,
            now_ms,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
        )

    def rotated(self, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the state after InitProducerId with the new `producer_id` and epoch 0, because the old id's epochs are exhausted.
        `last_epoch` is the epoch that the producer had before, by which a retry is recognized; -1 if unknown.
        """
        assert self.producer_id != producer_id, "a producer id is never given twice"
        return self.initialised(0, last_epoch, timeout_ms, now_ms)._replace(producer_id=producer_id)

    def with_partitions(self, added: frozenset[TopicPartition], version: int, now_ms: int) -> Transaction:
        """Return the state Ongoing with the partitions `added`. If no transaction is open, one starts at `now_ms`. `version` is the
        client's transaction version."""
        start_ms = self.start_ms if self.state is TxnState.ONGOING else now_ms
        return self._moved(TxnState.ONGOING, now_ms, partitions=self.partitions | added, start_ms=start_ms, version=version)

    def prepared(self, *, commit: bool, now_ms: int) -> Transaction:
        """Return the state PrepareCommit or PrepareAbort, for transaction versions 0 and 1: the producer keeps its epoch."""
        state = TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT
        return self._moved(state, now_ms, version=0, next_producer_id=NO_PRODUCER_ID)

    def prepared_with_bump(self, next_producer_id: int, *, commit: bool, now_ms: int) -> Transaction:
        """Return the state PrepareCommit or PrepareAbort, for transaction version 2. It has the producer's next epoch, so that a marker has
        a higher epoch than the data before it.

        `next_producer_id` is a new producer id if the epochs are exhausted, otherwise -1.
        """
        return self._moved(
            TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT,
            now_ms,
            producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX),
            last_producer_epoch=self.producer_epoch,
            start_ms=self.start_ms if self.state is TxnState.ONGOING else now_ms,
            version=2,
            next_producer_id=next_producer_id,
        )

    def fenced(self) -> Transaction:
        """Return the state with the next epoch, which fences the producer. In transaction versions 0 and 1, the coordinator's own abort
        begins with this."""
        assert self.state is TxnState.ONGOING, "only an open transaction is fenced"
        return self._replace(producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX), last_producer_epoch=NO_PRODUCER_EPOCH)

    def completed(self, now_ms: int) -> Transaction:
        """Return the state CompleteCommit or CompleteAbort, for when all markers are written. A prepared change of producer id takes
        effect."""
        producer_id, epoch = self.holder
        return self._moved(
            TxnState.COMPLETE_COMMIT if self.commits else TxnState.COMPLETE_ABORT,
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )

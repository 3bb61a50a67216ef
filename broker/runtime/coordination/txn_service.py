"""The transaction coordinator of this broker: finds the stored transaction of a transactional id, applies decisions to it and completes it.

Invariants:

* A transactional id lives in the partition of `__transaction_state` that it hashes to. The topic is created when a coordinator is first
  looked up.
* A transaction ends in two phases. In the first phase the Prepare record is written; the client gets its response when that record is
  committed. In the second phase `txn_completion` writes the markers.
* A restart continues from the log: a prepared transaction's markers are sent (again), and an open transaction keeps its timeout.
* A marker's coordinator epoch is the leader epoch of the transactional id's partition.

Source: KIP-98, KIP-360, KIP-890; Kafka's TransactionCoordinator, TransactionStateManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import transaction_level
from ottla.broker.cluster.topic_names import TRANSACTION_STATE
from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import TimerHandle
from ottla.broker.runtime.coordination.shard import Committed, ScheduleTimeout, Shard
from ottla.broker.runtime.coordination.shards import Shards
from ottla.broker.runtime.coordination.txn_completion import TransactionFaults, TxnCompletion
from ottla.broker.runtime.coordination.txn_markers import SendMarker
from ottla.broker.runtime.metadata.producer_ids import NoProducerId, ProducerIds
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import pause
from ottla.broker.txns import decide
from ottla.broker.txns.coordinator import TxnCoordinator
from ottla.broker.txns.states import PREPARED
from ottla.broker.txns.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition, Transaction
from ottla.broker.txns.txn_records import TxnRecord, decode_record, encode_record
from ottla.protocol.error_codes import ErrorCode

EXPIRY_BATCH_BYTES = 16 * 1024
"""The most bytes of expired transactional ids that are deleted by one batch of tombstones, as in Kafka; a single id may be longer."""

_OF_PARTITION = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors of an append that every other append to the partition of `__transaction_state` would get, too. Another error concerns one
transactional id only, for example that its record is too large."""

T = TypeVar("T")
Verified = dict[TopicPartition, ErrorCode]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TxnResult:
    """The coordinator's response to a producer: an error, or the producer id and epoch to use from now on."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class _Shard(Shard[TxnRecord, TxnCoordinator]):
    """One partition of `__transaction_state` that this broker leads, with the state machine of its transactional ids."""

    def __init__(self, partition: Partition, transaction_version: Callable[[], int], schedule_timeout: ScheduleTimeout) -> None:
        super().__init__(
            partition, TxnCoordinator(), lambda record: encode_record(record, transaction_version()), decode_record, schedule_timeout
        )

    def write(self, txn: Transaction) -> Committed:
        """Append the new state of the transaction `txn` to the partition. Return None if it is committed already, otherwise a future that
        is done when it is. If the append fails, raises Rejected with the error that a coordinator reports to clients.
        """
        return self.append([TxnRecord(txn.transactional_id, txn)])


class TxnService:
    """The transaction coordinator of this broker: it handles the transactional ids whose partition of `__transaction_state` this broker
    leads."""

    def __init__(
        self,
        settings: BrokerSettings,
        nursery: Nursery,
        partitions: Partitions,
        *,
        send_marker: SendMarker,
        producer_ids: ProducerIds,
        create_topic: Callable[[str], Awaitable[object]],
        catalog: Catalog,
        faults: TransactionFaults,
    ) -> None:
        self._settings = settings
        self._nursery = nursery
        self._clock = clock = nursery.clock
        self._timers = timers = nursery.timers
        self._producer_ids = producer_ids
        self._catalog = catalog
        self._completion = TxnCompletion(send_marker, timers, clock, catalog.has_partition, faults=faults)
        self.shards: Shards[_Shard] = Shards(
            TRANSACTION_STATE,
            partitions,
            lambda: catalog.partition_count(TRANSACTION_STATE),
            lambda partition: _Shard(partition, self._transaction_version, self._schedule_timeout),
            create_topic=create_topic,
            nursery=nursery,
            loaded=self._on_loaded,
            closed=self._completion.stop,
        )

    # --- life -----------------------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Start to load the transactional ids that this broker coordinates. Return when they are loaded, or after LOAD_BEFORE_SERVING_MS;
        the loading then continues while clients are served. Also start the periodic abort of timed-out transactions and the expiry of
        transactional ids.
        """
        settings = self._settings
        interval_ms = settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._nursery.every("abort of timed-out transactions", interval_ms, self._abort_timed_out)
        expiry_ms = settings.transaction_remove_expired_transaction_cleanup_interval_ms
        self.shards.sweep_every("expiry of transactional ids", expiry_ms, self._forget_expired)
        await self.shards.load()

    def stop(self) -> None:
        """Stop the transaction coordinator. After the next start, the coordinator continues unfinished transactions from the log."""
        self.shards.stop()
        self._completion.stop()

    # --- lookup ---------------------------------------------------------------------------------------------------------------

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the transaction of this transactional id, or None if the id is unknown. Raises Rejected if this broker does not coordinate
        the transactional id, or has not loaded the partition of that id yet.
        """
        return self.shards.of(transactional_id).machine.transactions.get(transactional_id)

    def all_transactions(self) -> Iterator[Transaction]:
        """Yield every transaction that this broker coordinates. Raises Rejected(COORDINATOR_LOAD_IN_PROGRESS) while some are not loaded."""
        for shard in self.shards.all():
            yield from shard.machine.transactions.values()

    # --- requests -------------------------------------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: decide.Expected | None
    ) -> TxnResult | asyncio.Future[TxnResult]:
        """Handle InitProducerId: return the transactional id's producer id with its next epoch, or an error; or a future of that result.
        Older epochs are fenced, and their open transaction is aborted. `timeout_ms` is the transaction timeout. `expected` are the producer
        id and epoch that the client has sent (None: none).
        """
        if transactional_id and not 0 < timeout_ms <= self._settings.transaction_max_timeout_ms:
            # Kafka checks the timeout before it looks for the coordinator.
            return _result(decide.Decision(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        return self._run(
            transactional_id,
            _result,
            lambda stored: decide.init_producer_id(
                stored,
                transactional_id,
                expected,
                timeout_ms=timeout_ms,
                timeout_ms_max=self._settings.transaction_max_timeout_ms,
                server_version=self._transaction_version(),
                new_producer_id=self._producer_ids.generate,
                now_ms=self._clock.now_ms(),
            ),
        )

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], client_version: int
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Handle AddPartitionsToTxn: begin the transaction or add partitions to it. Return the error code, or a future of the error code
        that completes when the change is committed. `client_version` is the producer's transaction version.
        """
        now_ms = self._clock.now_ms()
        return self._run(
            transactional_id,
            _error,
            lambda stored: decide.add_partitions(
                stored, transactional_id, producer_id, epoch, partitions, client_version=client_version, now_ms=now_ms
            ),
        )

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition]
    ) -> Verified | asyncio.Future[Verified]:
        """Return an error code for each partition, NONE if the partition belongs to the open transaction; or a future of these codes, which
        waits for earlier writes. The transaction is not changed.
        """
        if not transactional_id:
            return decide.verify_partitions(None, transactional_id, producer_id, epoch, partitions)
        try:
            shard = self.shards.of(transactional_id)
        except Rejected as error:
            return dict.fromkeys(partitions, error.code)
        stored = shard.machine.transactions.get(transactional_id)
        verified = decide.verify_partitions(stored, transactional_id, producer_id, epoch, partitions)
        return shard.respond_after(shard.append(()), verified, lambda error: dict.fromkeys(partitions, error.code))

    def end_txn(
        self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool, client_version: int
    ) -> TxnResult | asyncio.Future[TxnResult]:
        """Handle EndTxn: commit or abort the transaction. Return the producer id and epoch of the next transaction, or an error; or a
        future of that result, which completes when the Prepare record is committed. The result does not wait for the markers.
        `client_version` is the producer's transaction version.
        """
        return self._run(
            transactional_id,
            _result,
            lambda stored: decide.end_txn(
                stored,
                transactional_id,
                producer_id,
                epoch,
                commit=commit,
                client_version=client_version,
                new_producer_id=self._producer_ids.generate,
                now_ms=self._clock.now_ms(),
            ),
        )

    def _run(
        self, transactional_id: str, reply: Callable[[decide.Decision], T], decided: Callable[[Transaction | None], decide.Decision]
    ) -> T | asyncio.Future[T]:
        """Call `decided` with the transaction that is stored for the id, and append and apply the decision that it returns. Return
        `reply(decision)`, or a future of it that completes when the decision's record is committed. A decision without a record waits for
        earlier writes.
        """
        if not transactional_id:
            return reply(decide.Decision(ErrorCode.INVALID_REQUEST))
        try:
            shard = self.shards.of(transactional_id)
            decision = decided(shard.machine.transactions.get(transactional_id))
            committed = shard.append(()) if decision.write is None else self._write(shard, decision.write)
        except NoProducerId:
            return asyncio.ensure_future(self._run_with_producer_id(transactional_id, reply, decided))
        except Rejected as error:
            return reply(decide.Decision(error.code))
        return shard.respond_after(committed, reply(decision), lambda error: reply(decide.Decision(error.code)))

    async def _run_with_producer_id(
        self, transactional_id: str, reply: Callable[[decide.Decision], T], decided: Callable[[Transaction | None], decide.Decision]
    ) -> T:
        try:
            await self._producer_ids.wait()
        except Rejected as error:
            return reply(decide.Decision(error.code))
        result = self._run(transactional_id, reply, decided)
        return await result if isinstance(result, asyncio.Future) else result

    def _write(self, shard: _Shard, txn: Transaction) -> Committed:
        """Append the new state of the transaction `txn`. If the new state is PrepareCommit or PrepareAbort, the transaction's markers are
        sent once that state is committed.
        """
        committed = shard.write(txn)
        if txn.state in PREPARED:
            self._completion.begin(shard, txn, committed)
        return committed

    # --- timeouts and expiry --------------------------------------------------------------------------------------------------

    async def _abort_timed_out(self) -> None:
        """Abort all transactions that have timed out, at most TIMED_OUT_TRANSACTIONS_PER_TURN per turn of the event loop. Those that
        cannot be aborted now are tried again at the next periodic check.
        """
        now_ms = self._clock.now_ms()
        left = limits.TIMED_OUT_TRANSACTIONS_PER_TURN
        for shard in self.shards.serving():
            for txn in shard.machine.timed_out(now_ms):
                if left <= 0:
                    await pause(self._timers, self._clock, 1)
                    left = limits.TIMED_OUT_TRANSACTIONS_PER_TURN
                left -= 1 + min(len(txn.partitions), limits.MARKERS_AT_ONCE) // 10
                if shard.partition.removed or shard.machine.transactions.get(txn.transactional_id) is not txn:
                    continue  # this has changed during the pause
                with self._nursery.step("abort of transaction %r", txn.transactional_id):
                    if not self._abort(shard, txn, now_ms):
                        break

    def _abort(self, shard: _Shard, txn: Transaction, now_ms: int) -> bool:
        """Abort a transaction that has timed out. Return False if its partition of `__transaction_state` accepts no records now, so that
        its other transactions need not be tried."""
        logger.info("Transaction %r of producer %d timed out", txn.transactional_id, txn.producer_id)
        try:
            aborted = decide.fence_and_abort(txn, self._transaction_version(), self._producer_ids.generate, now_ms)
            self._write(shard, aborted)
        except Rejected as error:
            logger.warning("Transaction %r cannot be aborted yet: %s", txn.transactional_id, error)
            return error.code not in _OF_PARTITION
        return True

    def _forget_expired(self, shard: _Shard) -> None:
        batch: list[TxnRecord] = []
        size = 0
        try:
            for record in shard.machine.expired(self._clock.now_ms(), self._settings.transactional_id_expiration_ms):
                if batch and size + len(record.transactional_id) > EXPIRY_BATCH_BYTES:
                    shard.append(batch)
                    batch, size = [], 0
                batch.append(record)
                size += len(record.transactional_id)
            shard.append(batch)
        except Rejected as error:
            logger.warning("Could not delete expired transactional ids in %s-%d: %s", TRANSACTION_STATE, shard.partition.index, error)

    def _on_loaded(self, shard: _Shard) -> None:
        """Send the markers of the prepared transactions of a loaded partition, once all of its records are committed."""
        for txn in shard.machine.prepared():
            self._completion.begin(shard, txn, shard.append(()))

    def _transaction_version(self) -> int:
        return transaction_level(self._catalog.features)

    def _schedule_timeout(self, callback: Callable[[], None]) -> TimerHandle:
        return self._timers.schedule(self._clock.mono_ms() + self._settings.request_timeout_ms, callback)


def _result(decision: decide.Decision) -> TxnResult:
    return TxnResult(decision.error, decision.producer_id, decision.producer_epoch)


def _error(decision: decide.Decision) -> ErrorCode:
    return decision.error

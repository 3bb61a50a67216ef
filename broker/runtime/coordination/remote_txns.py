"""Asks transaction coordinators on other brokers, for partition leaders, to add partitions to transactions or to verify that partitions
belong to them (Kafka's AddPartitionsToTxnManager).

Invariants:

* The coordinator is the leader of the `__transaction_state` partition that the transactional id hashes to; it is looked up for each call.
  Without a coordinator the error is COORDINATOR_NOT_AVAILABLE; if the request fails it is NETWORK_EXCEPTION. If the coordinator's release
  is too old to verify partitions, no request is sent and all partitions count as verified, as in Kafka.
* A request contains a transactional id at most once; another call for the same id goes into the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.cluster.topic_names import TRANSACTION_STATE
from ottla.broker.core.java_hash import partition_of
from ottla.broker.runtime.coordination.txn_verification import TxnPartitions, VerificationResult
from ottla.broker.runtime.nodes.link import LinkBroken, UnsupportedByPeer
from ottla.broker.runtime.nodes.peers import OperationBatcher, Peers, PendingOperation
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    Errors = dict[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class _TxnOperation:
    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    only_verify: bool


class RemoteTxns:
    """Asks the coordinator of a transaction to add partitions to the transaction, or to verify that partitions belong to it
    (AddPartitionsToTxn; the interface is `TxnPartitions`). `local` handles the transactional ids that this broker, `node_id`, coordinates.
    """

    def __init__(self, local: TxnPartitions, catalog: Catalog, node_id: int, peers: Peers, nursery: Nursery) -> None:
        self._local = local
        self._catalog = catalog
        self._node_id = node_id
        self._peers = peers
        nursery.at_close(self._end, self._end)
        self._batches: OperationBatcher[_TxnOperation, Errors] = OperationBatcher(nursery, "transaction partitions", self._send_batch)

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], client_version: int
    ) -> VerificationResult:
        """Begin the transaction or add partitions to it. Return the error codes or, if another broker coordinates the transaction, a future
        of them; COORDINATOR_NOT_AVAILABLE if no coordinator can be contacted. A remote coordinator does not receive `client_version` and
        assumes transaction version 2, because only producers of that version let brokers add partitions.
        """
        if self._coordinator_of(transactional_id) == self._node_id:
            return self._local.add_partitions(transactional_id, producer_id, epoch, partitions, client_version)
        return self._ask(_TxnOperation(transactional_id, producer_id, epoch, partitions, only_verify=False))

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition]
    ) -> VerificationResult:
        """Return the error code of each partition: NONE if it belongs to the open transaction. If another broker coordinates the
        transaction, return a future of these codes; if no coordinator is known, COORDINATOR_NOT_AVAILABLE. Nothing is changed.
        """
        if self._coordinator_of(transactional_id) == self._node_id:
            return self._local.verify_partitions(transactional_id, producer_id, epoch, partitions)
        return self._ask(_TxnOperation(transactional_id, producer_id, epoch, partitions, only_verify=True))

    def _end(self) -> None:
        self._batches.end()
        self._peers.close()

    def _coordinator_of(self, transactional_id: str) -> int:
        count = self._catalog.partition_count(TRANSACTION_STATE)
        return self._catalog.leader_of((TRANSACTION_STATE, partition_of(transactional_id, count))) if count else NO_LEADER

    def _ask(self, operation: _TxnOperation) -> ErrorCode | asyncio.Future[Errors]:
        coordinator = self._coordinator_of(operation.transactional_id)
        if not self._peers.has(coordinator):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._batches.put(coordinator, operation)

    async def _send_batch(self, node: int, batch: Sequence[PendingOperation[_TxnOperation, Errors]]) -> None:
        now: dict[str, PendingOperation[_TxnOperation, Errors]] = {}
        for pending in batch:
            now.setdefault(pending.operation.transactional_id, pending)
        request = AddPartitionsToTxnRequest([_wire_transaction(pending.operation) for pending in now.values()])
        try:
            response: AddPartitionsToTxnResponse = await self._peers.call(node, request)
        except LinkBroken:
            _settle_all(now.values(), ErrorCode.NETWORK_EXCEPTION)
        except UnsupportedByPeer:
            _settle_all(now.values(), ErrorCode.NONE)
        else:
            _settle_each(now, response)


def _wire_transaction(operation: _TxnOperation) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(operation.partitions):
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnTransaction(
        operation.transactional_id,
        operation.producer_id,
        operation.epoch,
        operation.only_verify,
        [AddPartitionsToTxnTopic(*each) for each in topics.items()],
    )


def _settle_each(now: Mapping[str, PendingOperation[_TxnOperation, Errors]], response: AddPartitionsToTxnResponse) -> None:
    """Complete the operations that were sent in one request. `now` has them by transactional id. Each one gets its result from the
    response, or NETWORK_EXCEPTION if the response has no result for the id. An error of the whole response applies to all operations.
    """
    if response.error_code:
        not_for_clients = response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        _settle_all(now.values(), ErrorCode.INVALID_TXN_STATE if not_for_clients else ErrorCode.of(response.error_code))
        return
    for result in response.results_by_transaction:
        pending = now.get(result.transactional_id)
        if pending is not None:
            found = _errors(result)
            pending.settle({tp: found.get(tp, ErrorCode.NETWORK_EXCEPTION) for tp in pending.operation.partitions})
    _settle_all(now.values(), ErrorCode.NETWORK_EXCEPTION)


def _settle_all(batch: Iterable[PendingOperation[_TxnOperation, Errors]], error: ErrorCode) -> None:
    for pending in batch:
        pending.settle(dict.fromkeys(pending.operation.partitions, error))


def _errors(result: AddPartitionsToTxnResult) -> Errors:
    return {
        (topic.name, partition.partition_index): ErrorCode.of(partition.partition_error_code)
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }

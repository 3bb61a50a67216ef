"""Short forms of the transaction coordinator's requests, over a socket, each at a version of the test's choice."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest, TransactionState


def find_transaction_coordinator(client: Client) -> None:
    """Makes `__transaction_state` if need be."""
    assert client.call(FindCoordinatorRequest("tx", 1), version=3).error_code == ErrorCode.NONE


@dataclass
class Holder:
    """A producer id and epoch of a transactional id, and the connection of who holds them."""

    client: Client
    transactional_id: str
    producer_id: int
    epoch: int

    def add(self, *partitions: tuple[str, int], version: int = 3) -> list[int]:
        """AddPartitionsToTxn of a client; the errors, in the order of the partitions."""
        topics = [AddPartitionsToTxnTopic(topic, [index]) for topic, index in partitions]
        response = self.client.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=topics,
            ),
            version=version,
        )
        return [result.results_by_partition[0].partition_error_code for result in response.results_by_topic_v3_and_below]

    def add_offsets(self, group: str, version: int = 4) -> int:
        """AddOffsetsToTxn; its error."""
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
        error: int = self.client.call(request, version=version).error_code
        return error

    def end(self, *, commit: bool, version: int = 4) -> EndTxnResponse:
        """EndTxn, without going on in the epoch that it gives."""
        response: EndTxnResponse = self.client.call(
            EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit), version=version
        )
        return response

    def describe(self) -> TransactionState:
        """What DescribeTransactions says."""
        (state,) = self.client.call(DescribeTransactionsRequest([self.transactional_id])).transaction_states
        assert isinstance(state, TransactionState)
        return state


def init(client: Client, transactional_id: str = "tx", timeout_ms: int = 60_000) -> Holder:
    """InitProducerId, which must succeed at once."""
    find_transaction_coordinator(client)
    answer: InitProducerIdResponse = client.call(InitProducerIdRequest(transactional_id, timeout_ms))
    assert answer.error_code == ErrorCode.NONE
    return Holder(client, transactional_id, answer.producer_id, answer.producer_epoch)

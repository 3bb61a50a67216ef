"""Short forms of the transaction coordinator's requests over a socket, each in a version that the test chooses."""

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
    """Send FindCoordinator for a transactional id, which creates `__transaction_state` if it does not exist."""
    assert client.call(FindCoordinatorRequest("tx", 1), version=3).error_code == ErrorCode.NONE


@dataclass
class Holder:
    """A transactional id with its current producer id and epoch, and the connection on which its requests are sent."""

    client: Client
    transactional_id: str
    producer_id: int
    epoch: int

    def add(self, *partitions: tuple[str, int], version: int = 3) -> list[int]:
        """Send a client's AddPartitionsToTxn; return the error codes in the order of the partitions."""
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
        """Send AddOffsetsToTxn; return its error code."""
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
        error: int = self.client.call(request, version=version).error_code
        return error

    def end(self, *, commit: bool, version: int = 4) -> EndTxnResponse:
        """Send EndTxn and return the response, without adopting its producer epoch."""
        response: EndTxnResponse = self.client.call(
            EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit), version=version
        )
        return response

    def describe(self) -> TransactionState:
        """Return the state of the transactional id according to DescribeTransactions."""
        (state,) = self.client.call(DescribeTransactionsRequest([self.transactional_id])).transaction_states
        assert isinstance(state, TransactionState)
        return state


def init(client: Client, transactional_id: str = "tx", timeout_ms: int = 60_000) -> Holder:
    """Send InitProducerId, which must succeed at once; return the transactional id with its producer id and epoch."""
    find_transaction_coordinator(client)
    answer: InitProducerIdResponse = client.call(InitProducerIdRequest(transactional_id, timeout_ms))
    assert answer.error_code == ErrorCode.NONE
    return Holder(client, transactional_id, answer.producer_id, answer.producer_epoch)

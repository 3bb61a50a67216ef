"""The names of transaction states; the bytes of the records are tested with the coordinator that writes them."""

from __future__ import annotations

from ottla.broker.txns.states import TxnState
from ottla.protocol.schema import decode, encode
from ottla.protocol.transaction_log import TRANSACTION_STATES, PartitionsOfTopic, TransactionLogValue


def test_states_have_the_numbers_and_names_of_the_coordinator() -> None:
    assert [(state.value, state.wire_name) for state in TxnState] == list(enumerate(TRANSACTION_STATES))


def test_version_0_value_omits_the_fields_of_version_1() -> None:
    value = TransactionLogValue(
        producer_id=1,
        transaction_status=1,
        transaction_partitions=[PartitionsOfTopic("t", [0, 2])],
        client_transaction_version=2,
        next_producer_id=9,
    )
    read = decode(TransactionLogValue, encode(value, 0), 0)
    assert (read.client_transaction_version, read.next_producer_id) == (0, -1)
    assert read.transaction_partitions == value.transaction_partitions
    assert decode(TransactionLogValue, encode(value, 1), 1) == value

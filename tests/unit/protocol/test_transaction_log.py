from __future__ import annotations

from broker.txns.states import TxnState
from protocol.schema import decode, encode_prefixed, read_prefix
from protocol.transaction_log import TRANSACTION_KEY, TRANSACTION_STATES, PartitionsOfTopic, TransactionLogKey, TransactionLogValue

VALUE = bytes.fromhex(
    "0001000000000000126700030000ea60020302610300000000000000020002620200000001000000018bcfe5687b0000018bcfe56800"
    "0300080000000000000fa00108000000000000138802020002"
)
"""Written by Kafka 4.1.1's own class: a commit over three partitions that rotates the producer id."""


def test_kafkas_bytes_are_read_and_written_alike() -> None:
    version, body = read_prefix(VALUE)
    value = decode(TransactionLogValue, body, version)
    assert value == TransactionLogValue(
        producer_id=4711,
        previous_producer_id=4000,
        next_producer_id=5000,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=2,
        transaction_partitions=[PartitionsOfTopic("a", [0, 2]), PartitionsOfTopic("b", [1])],
        transaction_last_update_timestamp_ms=1_700_000_000_123,
        transaction_start_timestamp_ms=1_700_000_000_000,
        client_transaction_version=2,
    )
    assert encode_prefixed(value, version) == VALUE


def test_a_key_is_its_type_and_the_transactional_id() -> None:
    assert encode_prefixed(TransactionLogKey("tx"), 0, TRANSACTION_KEY) == b"\x00\x00\x00\x02tx"


def test_the_states_are_named_as_the_coordinator_names_them() -> None:
    assert [state.wire_name for state in TxnState] == list(TRANSACTION_STATES)

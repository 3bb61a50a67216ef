from __future__ import annotations

import pytest

from ottla.broker.txns.states import TxnState
from ottla.broker.txns.transaction import Transaction
from ottla.broker.txns.txn_records import TxnRecord, decode_record, encode_record
from ottla.protocol.errors import ProtocolError

OPEN = Transaction(
    "tx-ü", 4711, 3, 60_000, TxnState.ONGOING, frozenset({("b", 1), ("a", 2), ("a", 0)}), 1_700_000_000_000, 1_700_000_000_123
)
EMPTY = OPEN._replace(state=TxnState.EMPTY, partitions=frozenset(), start_ms=-1)
ABORTED = OPEN._replace(state=TxnState.COMPLETE_ABORT, partitions=frozenset())
ROTATING = OPEN._replace(state=TxnState.PREPARE_COMMIT, version=2, prev_producer_id=4000, next_producer_id=5000)

GOLDEN = [
    (EMPTY, 0, "0000000000000000126700030000ea6000ffffffff0000018bcfe5687bffffffffffffffff"),
    (
        OPEN,
        0,
        "0000000000000000126700030000ea60010000000200016100000002000000000000000200016200000001000000010000018bcfe5687b0000018bcfe56800",
    ),
    (ABORTED, 0, "0000000000000000126700030000ea6005000000000000018bcfe5687b0000018bcfe56800"),
    (EMPTY, 1, "0001000000000000126700030000ea6000000000018bcfe5687bffffffffffffffff00"),
    (
        OPEN._replace(version=2),
        2,
        "0001000000000000126700030000ea60010302610300000000000000020002620200000001000000018bcfe5687b0000018bcfe568000102020002",
    ),
    (ABORTED, 2, "0001000000000000126700030000ea6005010000018bcfe5687b0000018bcfe5680000"),
    (
        ROTATING,
        2,
        "0001000000000000126700030000ea60020302610300000000000000020002620200000001000000018bcfe5687b0000018bcfe56800"
        "0300080000000000000fa00108000000000000138802020002",
    ),
]
"""(transaction, transaction.version, value) as Kafka 4.1.1's own TransactionLogValue writes them."""

KEY = "0000000574782dc3bc"


@pytest.mark.parametrize(("txn", "transaction_version", "value"), GOLDEN)
def test_records_are_kafkas_byte_for_byte(txn: Transaction, transaction_version: int, value: str) -> None:
    written = encode_record(TxnRecord(txn.transactional_id, txn), transaction_version)
    assert (written[0].hex(), written[1] and written[1].hex()) == (KEY, value)


@pytest.mark.parametrize(("txn", "transaction_version", "value"), GOLDEN)
def test_kafkas_records_are_decoded(txn: Transaction, transaction_version: int, value: str) -> None:
    record = decode_record(bytes.fromhex(KEY), bytes.fromhex(value))
    assert record == TxnRecord("tx-ü", txn)


def test_a_tombstone_has_a_key_and_no_value() -> None:
    assert encode_record(TxnRecord("tx-ü", None), 2) == (bytes.fromhex(KEY), None)
    assert decode_record(bytes.fromhex(KEY), None) == TxnRecord("tx-ü", None)


def test_the_previous_producer_id_is_written_only_if_different() -> None:
    """Kafka leaves out a previous producer id that equals the current one, so the value equals Kafka's byte for byte."""
    same = OPEN._replace(prev_producer_id=4711)
    assert encode_record(TxnRecord("tx-ü", same), 1) == encode_record(TxnRecord("tx-ü", OPEN), 1)


def test_a_key_of_another_kind_is_skipped() -> None:
    assert decode_record(b"\x00\x07whatever", None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\x00", None),
        (bytes.fromhex(KEY)[:-1], None),
        (bytes.fromhex(KEY), b""),
        (bytes.fromhex(KEY), b"\x00\x02rest"),
        (bytes.fromhex(KEY), bytes.fromhex(GOLDEN[0][2])[:-1]),
        (bytes.fromhex(KEY), bytes.fromhex(GOLDEN[0][2].replace("ea6000", "ea6008"))),
        (bytes.fromhex(KEY), bytes.fromhex(GOLDEN[0][2].replace("ea6000", "ea60ff"))),
    ],
)
def test_damage_is_a_protocol_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode_record(key, value)

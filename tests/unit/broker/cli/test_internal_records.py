from __future__ import annotations

from ottla.broker.cli.internal_records import describe_record
from ottla.broker.cluster.metadata_records import BrokerRegistrationChangeRecord
from ottla.broker.cluster.record_frames import encode_record as encode_metadata_record
from ottla.broker.txns.states import TxnState
from ottla.broker.txns.transaction import Transaction
from ottla.broker.txns.txn_records import TxnRecord, encode_record
from ottla.protocol.records.record import Record, SimpleRecord, build_batch, iter_records

OPEN = Transaction("tx", 7, 3, 60_000, TxnState.ONGOING, frozenset({("t", 1), ("t", 0)}), 1_000, 2_000, version=2)


def record(key: bytes | None, value: bytes | None) -> Record:
    (read,) = iter_records(build_batch([SimpleRecord(key, value, 0)]))
    return read


def shown(txn: Transaction | None) -> object:
    key, value = encode_record(TxnRecord("tx", txn), 2)
    return describe_record("__transaction_state", record(key, value))["decoded"]


def test_transaction_record_is_printed_with_named_fields() -> None:
    assert shown(OPEN) == {
        "transactional_id": "tx",
        "value": {
            "state": "Ongoing",
            "producer_id": 7,
            "producer_epoch": 3,
            "timeout_ms": 60_000,
            "start_ms": 1_000,
            "last_update_ms": 2_000,
            "version": 2,
            "partitions": ["t-0", "t-1"],
        },
    }


def test_pending_producer_id_rotation_shows_the_next_producer_id() -> None:
    described = shown(OPEN._replace(state=TxnState.PREPARE_COMMIT, next_producer_id=99))
    assert isinstance(described, dict)
    assert described["value"]["next_producer_id"] == 99


def test_tombstone_of_a_transactional_id_has_no_value() -> None:
    assert shown(None) == {"transactional_id": "tx", "value": None}


def test_unreadable_record_is_reported_and_an_unknown_kind_is_printed_raw() -> None:
    damaged = describe_record("__transaction_state", record(b"\x00\x00\x00\x05ab", None))
    assert damaged["decoded"].startswith("not readable")
    assert describe_record("__transaction_state", record(b"\x00\x09x", b"y"))["value"] == "y"


def test_a_metadata_record_of_any_kind_is_shown_and_one_of_a_newer_kafka_named() -> None:
    value = encode_metadata_record(BrokerRegistrationChangeRecord(1, 7, fenced=-1), 0)
    described = describe_record("__cluster_metadata", record(None, value))["decoded"]
    assert described["type"] == "BrokerRegistrationChangeRecord"
    assert (described["broker_id"], described["broker_epoch"], described["fenced"]) == (1, 7, -1)
    newer = describe_record("__cluster_metadata", record(None, bytes.fromhex("017d0000")))
    assert newer["decoded"] == "not readable: metadata record of kind 125, version 0: not known to this broker"

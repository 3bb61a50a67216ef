"""The records of `__transaction_state`: the encoding of keys and values, byte for byte as in Kafka.

Invariants:
- A key is a type (i16, always 0) and the transactional id, never flexible. A value is a version (i16) and the body of that version. A
  record without a value is a tombstone.
- Version 0 is written while `transaction.version` is 0, otherwise version 1; only version 1 has the client's transaction version.
- The partitions of an Empty transaction are null, others a sorted list, so that equal transactions have equal bytes.
- Unlike Kafka 4.2, version 1 also stores the producer ids of a rotation, the change to a new producer id when the epochs are exhausted
  (`next_producer_id`, `previous_producer_id`, tags that Kafka reads but never writes). After a crash during a rotation, the coordinator
  then still knows the producer id that it has returned to the producer.

Source: Kafka's transaction-coordinator message schemas (TransactionLogKey, TransactionLogValue), TransactionLog.valueToBytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from ottla.broker.txns.states import TxnState
from ottla.broker.txns.transaction import NO_PRODUCER_ID, TopicPartition, Transaction
from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import Buffer, decode, encode_prefixed, read_prefix
from ottla.protocol.transaction_log import TRANSACTION_KEY, PartitionsOfTopic, TransactionLogKey, TransactionLogValue


@dataclass(frozen=True, slots=True)
class TxnRecord:
    """A record of `__transaction_state`: a transactional id with its state. The value None removes the id."""

    transactional_id: str
    value: Transaction | None


def encode_record(record: TxnRecord, transaction_version: int) -> tuple[bytes, bytes | None]:
    """Return the bytes of the record's key and value; the value is None for a tombstone. `transaction_version` is the cluster's feature
    level, which decides the version of the value."""
    key = encode_prefixed(TransactionLogKey(record.transactional_id), 0, TRANSACTION_KEY)
    if record.value is None:
        return key, None
    return key, encode_prefixed(_value_of(record.value), 0 if transaction_version == 0 else 1)


def decode_record(key: Buffer | None, value: Buffer | None) -> TxnRecord | None:
    """Decode one record; None if its key type is unknown. Raises ProtocolError if a known type cannot be decoded."""
    if key is None:
        raise ProtocolError("a record of __transaction_state without a key")
    key_type, key_body = read_prefix(key)
    if key_type != TRANSACTION_KEY:
        return None
    transactional_id = decode(TransactionLogKey, key_body, 0).transactional_id
    if value is None:
        return TxnRecord(transactional_id, None)
    version, body = read_prefix(value)
    return TxnRecord(transactional_id, _transaction(transactional_id, decode(TransactionLogValue, body, version)))


def _value_of(txn: Transaction) -> TransactionLogValue:
    rotated = txn.prev_producer_id != txn.producer_id
    return TransactionLogValue(
        producer_id=txn.producer_id,
        previous_producer_id=txn.prev_producer_id if rotated else NO_PRODUCER_ID,
        next_producer_id=txn.next_producer_id,
        producer_epoch=txn.producer_epoch,
        transaction_timeout_ms=txn.timeout_ms,
        transaction_status=txn.state,
        transaction_partitions=None if txn.state is TxnState.EMPTY else _by_topic(txn.partitions),
        transaction_last_update_timestamp_ms=txn.last_update_ms,
        transaction_start_timestamp_ms=txn.start_ms,
        client_transaction_version=txn.version,
    )


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsOfTopic]:
    return [
        PartitionsOfTopic(topic, [index for _, index in group])
        for topic, group in groupby(sorted(partitions), lambda partition: partition[0])
    ]


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    try:
        state = TxnState(value.transaction_status)
    except ValueError:
        raise ProtocolError(f"a transaction in the unknown state {value.transaction_status}") from None
    return Transaction(
        transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset((each.topic, index) for each in value.transaction_partitions or () for index in each.partition_ids),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        version=value.client_transaction_version,
        prev_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
    )

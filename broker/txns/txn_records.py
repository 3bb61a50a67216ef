"""The records of `__transaction_state`: what a key and a value look like, byte for byte as Kafka writes them.

Rules that hold here:
- a key is a type (i16, always 0) and the transactional id, never flexible; a value is a version (i16) and the body of that version; no
  value is a tombstone;
- version 0 is written while `transaction.version` is 0, version 1 from then on. Only it can say which client spoke;
- the partitions of an Empty transaction are null, those of any other a list, in order so that equal transactions are equal bytes;
- beyond Kafka 4.2, version 1 also says which producer id a rotation gives or gave (`next_producer_id`, `previous_producer_id`, tags that
  Kafka reads but never writes): a coordinator killed in the middle of a rotation keeps what it promised to the producer.

Source: KAFKA transaction-coordinator message schemas (TransactionLogKey, TransactionLogValue), TransactionLog.valueToBytes.
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
    """One transactional id with what became of it, or with None: the id is forgotten."""

    transactional_id: str
    value: Transaction | None


def encode_record(record: TxnRecord, transaction_version: int) -> tuple[bytes, bytes | None]:
    """The key's and the value's bytes; None for a tombstone. `transaction_version` is the cluster's, which decides the format."""
    key = encode_prefixed(TransactionLogKey(record.transactional_id), 0, TRANSACTION_KEY)
    if record.value is None:
        return key, None
    return key, encode_prefixed(_value_of(record.value), 0 if transaction_version == 0 else 1)


def decode_record(key: Buffer | None, value: Buffer | None) -> TxnRecord | None:
    """Read one record; None when its key type is unknown. Raises ProtocolError when a known type cannot be read."""
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
    return [PartitionsOfTopic(topic, [index for _, index in group]) for topic, group in groupby(sorted(partitions), lambda place: place[0])]


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

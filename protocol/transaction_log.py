"""The records of `__transaction_state` as Kafka declares them. The transaction coordinator writes them, and `ottla audit` reads them from
the log.

A key is a type (int16, always 0) and the transactional id, never flexible; a value is a version (int16) and the body of that version; a
null value is a tombstone. Source: KAFKA transaction-coordinator message schemas (TransactionLogKey, TransactionLogValue).
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int8, int16, int32, int64, string, wire_struct

TRANSACTION_KEY = 0
TRANSACTION_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence")
"""The names of the states by their number in `transaction_status`."""


@wire_struct
class TransactionLogKey(Message, versions="0"):
    """The key of a transaction's state: a transactional id."""

    transactional_id: str = string()


@wire_struct
class PartitionsOfTopic:
    """The partitions of one topic that are part of a transaction."""

    topic: str = string()
    partition_ids: list[int] = array(int32)


@wire_struct
class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    """The state of one transactional id. Times are Unix times in ms, -1 for none."""

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsOfTopic] | None = array(PartitionsOfTopic, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", default=0, tag=2)

"""The columns of the `kafka_log` data source, level by level.

Rules that hold here: columns are named as Kafka names the fields; times are milliseconds since the epoch, -1 for none, as in the file;
offsets and positions are of records and of bytes. Columns are added, never renamed: rules are written against them.
"""

from __future__ import annotations

from typing import Final

SEGMENT_COLUMNS: Final[dict[str, str]] = {
    "log_dir": "string",
    "topic": "string",
    "partition": "int",
    "segment": "bigint",
    "file": "string",
    "log_start_offset": "bigint",
    "cleaned_to": "bigint",
    "clean_shutdown": "boolean",
}
"""In front of every level. `segment`: the base offset in the file's name; `file`: the file that the row was read from."""
BATCH_COLUMNS: Final[dict[str, str]] = {
    "position": "bigint",
    "size_bytes": "bigint",
    "base_offset": "bigint",
    "last_offset": "bigint",
    "leader_epoch": "int",
    "magic": "int",
    "codec": "string",
    "log_append_time": "boolean",
    "transactional": "boolean",
    "control": "boolean",
    "delete_horizon": "boolean",
    "last_offset_delta": "int",
    "record_count": "int",
    "base_timestamp": "bigint",
    "max_timestamp": "bigint",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "base_sequence": "int",
    "last_sequence": "int",
    "crc": "bigint",
    "crc_ok": "boolean",
    "records_found": "int",
    "found_max_timestamp": "bigint",
    "sparse": "boolean",
    "records_fault": "string",
    "marker": "string",
    "coordinator_epoch": "int",
    "error": "string",
    "torn": "boolean",
}
"""One row a batch, plus one a stretch of bytes that is no batch (`error` set). `crc_ok` makes the reader read all bytes; the records are
opened for `records_found`, `found_max_timestamp`, `sparse`, `records_fault`, `marker` and `coordinator_epoch`, and then trusted only if
the CRC is right."""
RECORD_COLUMNS: Final[dict[str, str]] = {
    "position": "bigint",
    "base_offset": "bigint",
    "offset": "bigint",
    "timestamp": "bigint",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "transactional": "boolean",
    "control": "boolean",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "sequence": "int",
    "leader_epoch": "int",
}
"""One row a record of every batch whose CRC and records are right. `position` is its batch's."""
MARKER_COLUMNS: Final[dict[str, str]] = {
    "position": "bigint",
    "offset": "bigint",
    "timestamp": "bigint",
    "marker": "string",
    "coordinator_epoch": "int",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "leader_epoch": "int",
}
"""One row a control batch: `marker` is `commit`, `abort`, the name of another control type, or null for one that nobody here knows."""
TRANSACTION_COLUMNS: Final[dict[str, str]] = {
    "position": "bigint",
    "offset": "bigint",
    "timestamp": "bigint",
    "transactional_id": "string",
    "state": "string",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "timeout_ms": "int",
    "partitions": "array<string>",
    "started": "bigint",
    "updated": "bigint",
    "transaction_version": "int",
}
"""The records of `__transaction_state`; `partitions` as `topic-partition`; all after the id is null in a tombstone."""
OFFSET_COLUMNS: Final[dict[str, str]] = {
    "position": "bigint",
    "offset": "bigint",
    "timestamp": "bigint",
    "group_id": "string",
    "committed_topic": "string",
    "committed_partition": "int",
    "committed_offset": "bigint",
    "committed_leader_epoch": "int",
    "metadata": "string",
    "commit_timestamp": "bigint",
    "expire_timestamp": "bigint",
    "transactional": "boolean",
    "producer_id": "bigint",
    "producer_epoch": "int",
}
"""The committed offsets in `__consumer_offsets`; null from `committed_offset` to `expire_timestamp` in a tombstone. `transactional`: within
the transaction of `producer_id`, pending until that producer's next marker in the partition."""
SNAPSHOT_COLUMNS: Final[dict[str, str]] = {
    "snapshot_offset": "bigint",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "last_sequence": "int",
    "last_offset": "bigint",
    "offset_delta": "int",
    "timestamp": "bigint",
    "coordinator_epoch": "int",
    "current_txn_first_offset": "bigint",
    "error": "string",
}
"""The producers in each `.snapshot` file, as they were before `snapshot_offset`; one row with `error` for a file that does not check out,
one with nothing but its offset for a file without producers."""
INDEX_COLUMNS: Final[dict[str, str]] = {
    "kind": "string",
    "entry": "int",
    "position": "bigint",
    "offset": "bigint",
    "timestamp": "bigint",
    "log_position": "bigint",
    "producer_id": "bigint",
    "first_offset": "bigint",
    "last_stable_offset": "bigint",
    "leader_epoch": "int",
    "error": "string",
}
"""The entries of each `.index` (`kind` index: `offset` is the last of the batch at `log_position`), `.timeindex` (timeindex: no record up
to `offset` is later than `timestamp`), `.txnindex` (txnindex: an aborted transaction from `first_offset` to its marker at `offset`) and
`leader-epoch-checkpoint` (`leader_epoch` begins at `offset`). `position` is the entry's in its file. One row with `error` for bytes that
are no entry; zeros that preallocation leaves are none. A file without entries has one row whose `entry` is null."""
LEVELS: Final[dict[str, dict[str, str]]] = {
    "batches": BATCH_COLUMNS,
    "records": RECORD_COLUMNS,
    "markers": MARKER_COLUMNS,
    "transactions": TRANSACTION_COLUMNS,
    "offsets": OFFSET_COLUMNS,
    "snapshots": SNAPSHOT_COLUMNS,
    "indexes": INDEX_COLUMNS,
}


def ddl(level: str) -> str:
    """The schema of one level as Spark's DDL. Raises KeyError on an unknown level."""
    return ", ".join(f"`{name}` {kind}" for name, kind in (SEGMENT_COLUMNS | LEVELS[level]).items())

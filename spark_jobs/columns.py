"""The columns of the `kafka_log` data source, by level. A level is a kind of row: `batches` (one row per batch), `records`, `markers` and
others.

Invariants:
- Columns have the names of Kafka's fields.
- Timestamps are milliseconds since the epoch; -1 means none, as in the file.
- Offsets count records; positions count bytes.
- Columns may be added but never renamed, because rules depend on them.
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
"""The first columns of every kind of row. `segment`: the base offset in the segment file's name; `file`: the file that the row was read
from."""
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
"""One row per batch, and one row per range of bytes that is not a batch (`error` gives the reason). If the column `crc_ok` is requested,
the reader must read all bytes. If `records_found`, `found_max_timestamp`, `sparse`, `records_fault`, `marker` or `coordinator_epoch` is
requested, the reader must decode the records as well; these columns are null if the CRC is wrong."""
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
"""One row per record of every batch whose CRC and records are correct. `position` is the position of the batch."""
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
"""One row per control batch. `marker`: `commit`, `abort`, the name of another control type, or null for an unknown type."""
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
"""One row per record of `__transaction_state`. `partitions` are strings `topic-partition`. In a tombstone all columns after
`transactional_id` are null."""
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
"""One row per committed offset in `__consumer_offsets`. In a tombstone the columns from `committed_offset` to `expire_timestamp` are
null. `transactional`: the offset is part of a transaction of `producer_id` and is pending until that producer's next marker in the
partition."""
SHARE_STATE_COLUMNS: Final[dict[str, str]] = {
    "position": "bigint",
    "base_offset": "bigint",
    "offset": "bigint",
    "timestamp": "bigint",
    "record": "string",
    "group_id": "string",
    "topic_id": "string",
    "share_partition": "int",
    "snapshot_epoch": "int",
    "state_epoch": "int",
    "share_leader_epoch": "int",
    "start_offset": "bigint",
    "delivery_complete_count": "int",
    "create_timestamp": "bigint",
    "write_timestamp": "bigint",
    "batch": "int",
    "first_offset": "bigint",
    "last_offset": "bigint",
    "delivery_state": "int",
    "delivery_count": "int",
}
"""One row per state batch of each record of `__share_group_state`, and one row for a record without state batches (`batch` and the columns
after it are null). `record`: `snapshot`, `update`, `tombstone`, or `unreadable` (the columns after `record` are null). `topic_id` is
written as in `partition.metadata`. `delivery_state`: 0 available, 2 acknowledged, 3 archiving, 4 archived."""
GROUP_COLUMNS: Final[dict[str, str]] = {
    "position": "bigint",
    "base_offset": "bigint",
    "offset": "bigint",
    "timestamp": "bigint",
    "record": "string",
    "group_type": "string",
    "group_id": "string",
    "member_id": "string",
    "deleted": "boolean",
    "epoch": "int",
    "tasks": "array<string>",
    "standby_tasks": "array<string>",
    "warmup_tasks": "array<string>",
}
"""One row per record in `__consumer_offsets` of a consumer, share or streams group and its members. `record` is the kind of record: `group`
(`epoch` is the group's epoch), `member`, `target` (`epoch` is that of the target assignment), `target member`, `current` (a member's epoch
and assignment), or `unreadable`. `deleted`: the record is a tombstone. `tasks`: what is assigned to the member, including what it must
revoke: `subtopology-partition` for the active tasks of a streams group, otherwise `topic id-partition`."""
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
"""One row per producer in each `.snapshot` file; the states are those before `snapshot_offset`. A file that fails its check has one row
with `error`; a file without producers has one row with only `snapshot_offset`."""
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
"""One row per entry of an index file, by `kind`:
- index (`.index`): `offset` is the last offset of the batch at `log_position`.
- timeindex (`.timeindex`): no record up to `offset` has a later timestamp than `timestamp`.
- txnindex (`.txnindex`): an aborted transaction from `first_offset` to its marker at `offset`.
- leader-epoch-checkpoint: `leader_epoch` begins at `offset`.

`position` is the entry's position in its file. Bytes that are not a valid entry have one row with `error`; zeros from preallocation have
none. A file without entries has one row whose `entry` is null.
"""
LEVELS: Final[dict[str, dict[str, str]]] = {
    "batches": BATCH_COLUMNS,
    "records": RECORD_COLUMNS,
    "markers": MARKER_COLUMNS,
    "transactions": TRANSACTION_COLUMNS,
    "offsets": OFFSET_COLUMNS,
    "groups": GROUP_COLUMNS,
    "share_states": SHARE_STATE_COLUMNS,
    "snapshots": SNAPSHOT_COLUMNS,
    "indexes": INDEX_COLUMNS,
}


def ddl(level: str) -> str:
    """Return the columns of one level, which is a kind of row such as `batches`, as Spark DDL. Raises KeyError on an unknown level."""
    return ", ".join(f"`{name}` {kind}" for name, kind in (SEGMENT_COLUMNS | LEVELS[level]).items())

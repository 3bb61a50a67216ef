"""The SQL queries of the continuous audit. They combine the rows remembered from earlier micro-batches with a new micro-batch, so that the
rules' views can be built over both, and choose the rows to remember for the next micro-batch.

Invariants:
- Remembered rows precede arriving rows in every window. Each keeps the counts that it had in the whole log: `blind_before` (unreadable byte
  ranges before it) and `holes_before` (offsets before it that compaction may have emptied).
- A row is remembered for one or more purposes (roles): `tail` for its partition's rules, `of_producer` for its producer's epochs and
  transactions, `of_sequence` for its producer's sequences. The columns that the row's roles do not need are masked (producer -1, sequence
  -1), so that no rule uses the row beyond its roles.
- A row with `merged` represents a range of sequences, not one batch.
"""

from __future__ import annotations

from typing import Final

from ottla.spark_jobs import views

_RAW: Final = [column.split(" ")[0] for column in views.RAW_BATCHES_NEED.split(", ")]
_DERIVED_COLUMNS: Final = (
    "blind_before bigint, has_traces boolean, compacted boolean, prev_base_offset bigint, prev_last_offset bigint, front_offset bigint, "
    "prev_blind bigint, hole bigint, legal_hole boolean, holes_before bigint"
)
_DERIVED: Final = [column.split(" ")[0] for column in _DERIVED_COLUMNS.split(", ")]
_FLAGS: Final = ["tail", "of_producer", "of_sequence", "merged", "told"]
"""The boolean columns of a remembered row. `tail`, `of_producer`, `of_sequence`: the row is remembered for rules about the partition, about
the producer, about sequences. `merged`: the row represents a range of sequences, not one batch. `told`: the row's transaction was already
reported as hanging."""
STATE_COLUMNS: Final = ", ".join([views.RAW_BATCHES_NEED, _DERIVED_COLUMNS, *(f"{flag} boolean" for flag in _FLAGS)])
_RAW_LIST: Final = ", ".join(_RAW)
_ROW: Final = "log_dir, file, position"
_PARTITION: Final = "log_dir, topic, partition"
_PRODUCER: Final = "log_dir, topic, partition, producer_id"
_EPOCH: Final = "log_dir, topic, partition, producer_id, producer_epoch"
SPAN_MAX: Final = 1 << 29
"""The maximum number of sequences that one merged row represents: a jump of 2^30 would look like the wrap of sequences."""
KEPT_BATCHES: Final = 5
"""The number of a producer's last batches to remember, as in a broker (Kafka's ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""

_COUNTED: Final = {
    "blind_before": "CAST(c.blind_before + coalesce(a.blind_base, 0) AS BIGINT)",
    "holes_before": "CAST(c.holes_before + coalesce(a.holes_base, 0) AS BIGINT)",
}

_OF_DIRECTORY: Final = """JOIN (SELECT log_dir, producer_id, max(newest_epoch) AS newest_epoch
          FROM newest_epochs GROUP BY log_dir, producer_id) p ON p.log_dir = t.log_dir AND p.producer_id = t.producer_id"""
_OF_PARTITION: Final = "p.log_dir = t.log_dir AND p.topic = t.topic AND p.partition = t.partition AND p.producer_id = t.producer_id"

JUDGED: Final = {
    "raw_batches": f"""
        SELECT {_RAW_LIST}, true AS from_state, merged FROM state WHERE tail
        UNION ALL SELECT {_RAW_LIST}, false, false FROM arriving
    """,
    "batches": f"""
        WITH last AS (
            SELECT {_PARTITION}, max_by(struct(file, position, blind_before, holes_before), struct(segment, position)) AS row
            FROM state WHERE tail AND error IS NULL AND coalesce(crc_ok, true) GROUP BY {_PARTITION}
        ), anchors AS (
            SELECT l.log_dir, l.topic, l.partition,
                l.row.blind_before - c.blind_before AS blind_base, l.row.holes_before - c.holes_before AS holes_base
            FROM last l JOIN computed c ON c.log_dir = l.log_dir AND c.file = l.row.file AND c.position = l.row.position AND c.from_state
        )
        SELECT {", ".join(_COUNTED.get(name, f"c.{name}") + f" AS {name}" for name in _RAW + _DERIVED)},
            false AS from_state, false AS merged
        FROM computed c
        LEFT JOIN anchors a ON a.log_dir = c.log_dir AND a.topic = c.topic AND a.partition = c.partition
        WHERE NOT c.from_state
        UNION ALL
        SELECT {", ".join(_RAW + _DERIVED)}, true, merged FROM state WHERE error IS NULL AND coalesce(crc_ok, true)
    """,
    "newest_epochs": views.NEWEST_EPOCHS.replace("log_dir, producer_id", _PRODUCER),
    "open_transactions": views.OPEN_TRANSACTIONS.replace(_OF_DIRECTORY, f"JOIN newest_epochs p ON {_OF_PARTITION}"),
}
"""SQL of those views that the continuous audit defines differently from `views`. `raw_batches`: the rows remembered for each partition,
then the arriving rows. `batches`: the arriving rows, with counts that continue those of the remembered rows, and all remembered rows.
`newest_epochs` and `open_transactions` use epochs of the same partition only."""
assert _OF_DIRECTORY in views.OPEN_TRANSACTIONS

EMPTY_STATES: Final = {
    "states": "log_dir string, producer_id bigint, latest boolean, state string, started bigint, updated bigint, transactional_id string, "
    "timeout_ms int, producer_epoch int, partitions array<string>",
    "complete_states": "log_dir string",
}
"""The columns of empty tables that replace the records of `__transaction_state`, which the continuous audit does not read. Whether a
transaction hangs is therefore judged by its age alone."""

SPANS: Final = f"""
    WITH ranked AS (
        SELECT *,
            max(session) OVER (PARTITION BY {_PRODUCER}) AS last_session,
            dense_rank() OVER (PARTITION BY {_PRODUCER}, session ORDER BY producer_epoch DESC) AS epoch_rank,
            row_number() OVER (PARTITION BY {_EPOCH}, session ORDER BY merged, segment DESC, position DESC) AS age
        FROM sequences
    )
    SELECT *, age <= {KEPT_BATCHES} AND NOT merged AS apart FROM ranked WHERE session = last_session AND epoch_rank <= 2
"""
"""SQL that selects the batches whose sequences must be remembered: those of each producer's two newest epochs. The column `apart` is true
for the last KEPT_BATCHES batches of an epoch; each of them is remembered as a row. The other batches of the epoch become one merged row."""

ROLES: Final = f"""
    WITH times AS (
        SELECT log_dir, topic, partition,
            max(coalesce(max(CASE WHEN control OR log_append_time OR startswith(topic, '__') THEN max_timestamp END), max(max_timestamp)))
                OVER (PARTITION BY log_dir) AS directory_time,
            coalesce(max(CASE WHEN control OR log_append_time OR startswith(topic, '__') THEN max_timestamp END), max(max_timestamp))
                AS partition_time
        FROM batches GROUP BY log_dir, topic, partition
    ), producers AS (
        SELECT *,
            max(session) OVER (PARTITION BY {_PRODUCER}) AS last_session,
            count(marker) OVER (PARTITION BY {_PRODUCER}) AS markers,
            last_value(max_timestamp) OVER (PARTITION BY {_PRODUCER} ORDER BY segment, position
                                            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last_seen,
            transactional AND NOT control AND ordinal = count(marker) OVER (PARTITION BY {_PRODUCER}) AS is_open
        FROM producer_batches
    ), alive AS (
        SELECT p.*, bool_or(is_open) OVER (PARTITION BY {", ".join("p." + name for name in _PRODUCER.split(", "))}) AS has_open
        FROM producers p
        JOIN times t ON t.log_dir = p.log_dir AND t.topic = p.topic AND t.partition = p.partition
        WHERE {views.clamped("t.{clock}")} - {views.clamped("p.last_seen")} < :expiration_ms OR p.is_open
    ), producer_rows AS (
        SELECT *,
            row_number() OVER (PARTITION BY {_PRODUCER} ORDER BY segment DESC, position DESC) AS last_any,
            row_number() OVER (PARTITION BY {_PRODUCER}, control ORDER BY segment DESC, position DESC) AS last_kind,
            row_number() OVER (PARTITION BY {_PRODUCER}, control ORDER BY producer_epoch DESC, segment DESC, position DESC) AS top_epoch,
            row_number() OVER (PARTITION BY {_PRODUCER}, marker IS NULL ORDER BY segment DESC, position DESC) AS last_marker,
            row_number() OVER (PARTITION BY {_PRODUCER}, marker IS NULL ORDER BY coordinator_epoch DESC, position DESC) AS top_coordinator,
            row_number() OVER (PARTITION BY {_PRODUCER}, is_open ORDER BY segment, position) AS first_open
        FROM alive WHERE (session = last_session OR is_open) AND NOT merged
    ), partition_rows AS (
        SELECT *,
            row_number() OVER in_log AS last_row,
            row_number() OVER (PARTITION BY {_PARTITION} ORDER BY last_offset DESC, segment, position) AS top_offset,
            row_number() OVER (PARTITION BY {_PARTITION}, magic = 2 ORDER BY segment DESC, position DESC) AS last_v2,
            row_number() OVER (PARTITION BY {_PARTITION}, magic = 2 AND leader_epoch >= 0 ORDER BY segment DESC, position DESC) AS last_led,
            row_number() OVER (PARTITION BY {_PARTITION}, magic = 2 ORDER BY leader_epoch DESC, segment, position) AS top_led,
            row_number() OVER (PARTITION BY {_PARTITION}, {views.TRACE}
                               ORDER BY segment DESC, position DESC) AS last_trace,
            row_number() OVER (PARTITION BY {_PARTITION} ORDER BY max_timestamp DESC, segment, position) AS top_time,
            row_number() OVER (PARTITION BY {_PARTITION}, control OR log_append_time OR startswith(topic, '__')
                               ORDER BY max_timestamp DESC, segment, position) AS top_broker_time
        FROM batches WHERE NOT merged
        WINDOW in_log AS (PARTITION BY {_PARTITION} ORDER BY segment DESC, position DESC)
    ), chosen AS (
        SELECT {_ROW}, true AS tail, false AS of_producer, false AS of_sequence FROM partition_rows
        WHERE last_row = 1 OR top_offset = 1 OR top_time = 1
           OR last_v2 = 1 AND magic = 2 OR last_led = 1 AND magic = 2 AND leader_epoch >= 0 OR top_led = 1 AND magic = 2
           OR last_trace = 1 AND {views.TRACE}
           OR top_broker_time = 1 AND (control OR log_append_time OR startswith(topic, '__'))
        UNION ALL
        SELECT {_ROW}, false, true, false FROM producer_rows
        WHERE last_any = 1 OR last_kind = 1 OR top_epoch = 1 OR (last_marker = 1 OR top_coordinator = 1) AND marker IS NOT NULL
           OR first_open = 1 AND is_open
        UNION ALL
        SELECT s.log_dir, s.file, s.position, false, true, true FROM spans s
        JOIN (SELECT DISTINCT {_PRODUCER} FROM alive) a
            ON a.log_dir = s.log_dir AND a.topic = s.topic AND a.partition = s.partition AND a.producer_id = s.producer_id
        WHERE s.apart
    )
    SELECT {_ROW}, bool_or(tail) AS tail, bool_or(of_producer) AS of_producer, bool_or(of_sequence) AS of_sequence
    FROM chosen GROUP BY {_ROW}
"""
"""SQL that selects the rows to remember for the next micro-batch, with their roles (`tail`, `of_producer`, `of_sequence`). `{{clock}}` is
the column of `times` that is compared with a producer's last timestamp to decide whether the producer has expired."""

_LENGTH: Final = f"least(max(s.sequence_end) - min(s.sequence), {SPAN_MAX})"
_MERGED: Final = {
    "base_sequence": f"CAST((max(s.sequence_end) - {_LENGTH}) % 2147483648 AS INT)",
    "last_sequence": "CAST(max(s.sequence_end) % 2147483648 AS INT)",
    "last_offset_delta": f"CAST({_LENGTH} AS INT)",
    "record_count": f"CAST({_LENGTH} + 1 AS INT)",
    "blind_before": "max_by(s.blind_before, s.sequence_end)",
    "holes_before": "max_by(s.holes_before, s.sequence_end)",
}
_MASKED: Final = {
    "producer_id": "CASE WHEN r.of_producer THEN b.producer_id ELSE -1 END",
    "base_sequence": "CASE WHEN r.of_sequence THEN b.base_sequence ELSE -1 END",
}

REMEMBERED: Final = f"""
    SELECT {", ".join(_MASKED.get(name, f"b.{name}") + f" AS {name}" for name in _RAW + _DERIVED)},
        r.tail, r.of_producer, r.of_sequence, false AS merged, n.file IS NOT NULL OR coalesce(t.told, false) AS told
    FROM batches b
    JOIN roles r ON r.log_dir = b.log_dir AND r.file = b.file AND r.position = b.position
    LEFT JOIN reported_now n ON n.log_dir = b.log_dir AND n.file = b.file AND n.position = b.position
    LEFT JOIN state t ON t.log_dir = b.log_dir AND t.file = b.file AND t.position = b.position AND NOT t.merged
    WHERE NOT b.merged
    UNION ALL
    SELECT {", ".join(_MERGED.get(name, f"min_by(s.{name}, struct(s.segment, s.position))") + f" AS {name}" for name in _RAW + _DERIVED)},
        false, true, true, true, false
    FROM spans s
    JOIN (SELECT DISTINCT {_PRODUCER} FROM batches b JOIN roles r USING ({_ROW}) WHERE r.of_producer) a
        ON a.log_dir = s.log_dir AND a.topic = s.topic AND a.partition = s.partition AND a.producer_id = s.producer_id
    WHERE NOT s.apart
    GROUP BY s.log_dir, s.topic, s.partition, s.producer_id, s.producer_epoch
    UNION ALL
    SELECT {", ".join(f"u.{name}" for name in _RAW)},
        {", ".join(f"CAST(NULL AS {column.split(' ')[1]})" for column in _DERIVED_COLUMNS.split(", "))},
        true, false, false, false, false
    FROM (
        SELECT *, row_number() OVER (PARTITION BY {_PARTITION} ORDER BY segment DESC, position DESC) AS age FROM raw_batches
    ) u
    WHERE u.age = 1 AND NOT (u.error IS NULL AND coalesce(u.crc_ok, true))
"""
"""SQL of the state after a micro-batch: the remembered rows, which precede the next micro-batch. If a log ends with bytes that cannot be
read, the row for them represents everything since the last batch with a correct CRC."""

ARRIVED: Final = """
    SELECT count(*) AS batches, coalesce(sum(CASE WHEN crc_ok AND NOT control THEN record_count END), 0) AS records
    FROM arriving WHERE error IS NULL
"""

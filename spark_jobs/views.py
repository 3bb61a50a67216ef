"""SQL of the views that rules query: batches in log order, each producer's batches, its sequences, and records by business key.

Invariants:
- Only batches with a correct CRC are trusted. Each row counts the untrusted ranges of bytes before it (`blind_before`) and the offsets
  before it that compaction may have emptied (`holes_before`), so that a rule can distinguish "lost" from "not readable" and from "compacted
  away".
- All windows are per log directory, so one audit can judge several directories.
"""

from __future__ import annotations

from typing import Final

RAW_BATCHES_NEED: Final = (
    "log_dir string, topic string, partition int, segment bigint, file string, cleaned_to bigint, clean_shutdown boolean, position "
    "bigint, size_bytes bigint, base_offset bigint, last_offset bigint, magic int, transactional boolean, control boolean, "
    "log_append_time boolean, delete_horizon boolean, last_offset_delta int, record_count int, max_timestamp bigint, leader_epoch int, "
    "producer_id bigint, producer_epoch int, base_sequence int, last_sequence int, crc bigint, crc_ok boolean, "
    "records_found int, found_max_timestamp bigint, sparse boolean, "
    "records_fault string, marker string, coordinator_epoch int, error string, torn boolean"
)
"""The columns of level `batches` that views and rules read. The reader builds no others."""


def clamped(number: str) -> str:
    """Return SQL that clamps a time or an offset to the range from -2^62 to 2^62 - 1, so that the difference of two values fits into 64
    bits: clients may send any time, and damage may produce any offset. Null stays null; with SQL's `least` it would become the limit."""
    return f"CASE WHEN {number} >= {2**62} THEN {2**62 - 1} WHEN {number} < {-(2**62)} THEN {-(2**62)} ELSE {number} END"


TRUSTED_COLUMNS: Final = ", ".join(
    name for name in (column.split(" ")[0] for column in RAW_BATCHES_NEED.split(", ")) if name not in {"error", "torn"}
)
"""The columns of level `batches` that rows of a batch with a correct CRC need: all but `error` and `torn`, which are always null there."""


TRACE: Final = "crc_ok AND (delete_horizon OR record_count = 0 OR (sparse AND records_fault IS NULL))"
"""SQL that recognises traces of the log cleaner, which no producer can write: a delete horizon, an emptied batch, a batch whose records'
offsets have holes."""


def batches(columns: str = TRUSTED_COLUMNS) -> str:
    """Return the SQL of view `batches` with these columns of `raw_batches`: the batches with a correct CRC, in log order.

    `compacted`: the cleaner may have removed records of this batch, according to its checkpoint, the topic's name or the cleaner's traces.
    `hole`: the number of offsets missing before the batch. `legal_hole`: the cleaner may have made this hole; `holes_before` sums up only
    such holes. The hole before a legacy message (magic 0 or 1) is unknown and counts as 0, because a compressed legacy message has the
    offset of its last inner record.
    """
    return f"""
        WITH seen AS (
            SELECT *,
                sum(CASE WHEN error IS NULL AND coalesce(crc_ok, true) THEN 0 ELSE 1 END) OVER in_log AS blind_before,
                max(coalesce({TRACE}, false))
                    OVER (PARTITION BY log_dir, topic, partition) AS has_traces
            FROM raw_batches
            WINDOW in_log AS (PARTITION BY log_dir, topic, partition ORDER BY segment, position ROWS UNBOUNDED PRECEDING)
        ), ordered AS (
            SELECT {columns}, blind_before, has_traces,
                has_traces OR base_offset < cleaned_to AS compacted,
                lag(base_offset) OVER in_log AS prev_base_offset,
                lag(last_offset) OVER in_log AS prev_last_offset,
                max(last_offset) OVER (PARTITION BY log_dir, topic, partition ORDER BY segment, position
                                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS front_offset,
                lag(blind_before) OVER in_log AS prev_blind
            FROM seen
            WHERE error IS NULL AND coalesce(crc_ok, true)
            WINDOW in_log AS (PARTITION BY log_dir, topic, partition ORDER BY segment, position)
        ), holed AS (
            SELECT *,
                CASE WHEN magic = 2 AND blind_before = prev_blind AND front_offset >= 0 AND base_offset > front_offset
                     THEN base_offset - front_offset - 1 ELSE 0 END AS hole
            FROM ordered
        )
        SELECT *,
            hole > 0 AND (has_traces OR prev_base_offset < cleaned_to) AS legal_hole,
            sum(CASE WHEN has_traces OR prev_base_offset < cleaned_to THEN hole ELSE 0 END) OVER (
                PARTITION BY log_dir, topic, partition ORDER BY segment, position ROWS UNBOUNDED PRECEDING) AS holes_before
        FROM holed
    """


PRODUCER_COLUMNS: Final = (
    "log_dir, topic, partition, segment, file, position, size_bytes, base_offset, last_offset, last_offset_delta, record_count, "
    "max_timestamp, log_append_time, transactional, control, marker, coordinator_epoch, producer_id, producer_epoch, base_sequence, "
    "last_sequence, crc, compacted, cleaned_to, blind_before, holes_before"
)
"""The columns of `producer_batches` that rules read, beside those that its query adds. The list is short because a window carries all
its input columns."""


def producer_batches(columns: str = PRODUCER_COLUMNS) -> str:
    """Return the SQL of view `producer_batches` with these columns of `batches`: batches and markers with a producer id, in log order.

    `session`: how many times before this row the producer wrote nothing for at least producer.id.expiration.ms, so that a broker forgot it.
    A pause between a transaction's data and its marker does not count, whatever times the records have: a broker does not forget a producer
    while its transaction is open (Kafka's ProducerStateManager.isProducerExpired). `ordinal`: the number of the producer's transactions
    that ended before the row; a batch and the marker that ends its transaction have the same ordinal. `max_epoch_before`: the highest epoch
    of all earlier batches and markers of the session. `prev_epoch`: the highest epoch of the session's earlier data batches.
    """
    return f"""
        WITH timed AS (
            SELECT {columns},
                CASE WHEN {clamped("max_timestamp")} - lag({clamped("max_timestamp")}) OVER of_producer >= :expiration_ms
                      AND NOT (lag(transactional AND NOT control AND record_count > 0) OVER of_producer
                               AND lag(blind_before) OVER of_producer = blind_before)
                     THEN 1 ELSE 0 END AS forgotten
            FROM batches
            WHERE producer_id >= 0
            WINDOW of_producer AS (PARTITION BY log_dir, topic, partition, producer_id ORDER BY segment, position)
        ), sessions AS (
            SELECT *, sum(forgotten) OVER (
                PARTITION BY log_dir, topic, partition, producer_id ORDER BY segment, position ROWS UNBOUNDED PRECEDING) AS session
            FROM timed
        )
        SELECT *,
            count(marker) OVER (PARTITION BY log_dir, topic, partition, producer_id ORDER BY segment, position
                                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ordinal,
            max(producer_epoch) OVER (PARTITION BY log_dir, topic, partition, producer_id, session ORDER BY segment, position
                                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS max_epoch_before,
            CASE WHEN NOT control THEN max(producer_epoch) OVER (
                PARTITION BY log_dir, topic, partition, producer_id, session, control ORDER BY segment, position
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) END AS prev_epoch,
            CASE WHEN NOT control THEN lag(blind_before) OVER of_kind END AS prev_blind_before,
            CASE WHEN NOT control THEN lag(holes_before) OVER of_kind END AS prev_holes_before
        FROM sessions
        WINDOW of_kind AS (PARTITION BY log_dir, topic, partition, producer_id, session, control ORDER BY segment, position)
    """


SEQUENCE_COLUMNS: Final = (
    "log_dir, topic, partition, segment, file, position, base_offset, last_offset_delta, record_count, producer_id, producer_epoch, "
    "base_sequence, last_sequence, crc, session, blind_before, holes_before"
)
"""The columns of `sequences` that rules read, beside those that its query adds."""
_EPOCH: Final = "PARTITION BY log_dir, topic, partition, producer_id, producer_epoch, session"
_BEFORE: Final = f"({_EPOCH} ORDER BY sequence, segment, position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"


def sequences(columns: str = SEQUENCE_COLUMNS) -> str:
    """Return the SQL of view `sequences` with these columns of `producer_batches`: data batches with `sequence`, which is the base
    sequence, continued past the wrap at 2^31. Sequences that differ by more than 2^30 are on different sides of a wrap, unless compaction
    may have removed all records between the two batches. Offsets committed in transactions are excluded: the group coordinator appends them
    under the producer's id, each with sequence 0.

    `max_sequence_before`, `predecessor`: the highest last sequence among the batches that precede this one in sequence order, and the
    batch that has it.
    `max_sequence_before_in_log`: the highest last sequence among the batches that precede this one in the log.
    """
    return f"""
        WITH turned AS (
            SELECT {columns},
                CASE WHEN holes_before - lag(holes_before) OVER in_epoch
                          >= (base_sequence - CAST(lag(last_sequence) OVER in_epoch AS BIGINT) + 2147483647) % 2147483648
                     THEN CASE WHEN base_sequence < lag(base_sequence) OVER in_epoch THEN 1 ELSE 0 END
                     WHEN lag(base_sequence) OVER in_epoch - CAST(base_sequence AS BIGINT) > 1073741824 THEN 1
                     WHEN CAST(base_sequence AS BIGINT) - lag(base_sequence) OVER in_epoch > 1073741824 THEN -1
                     ELSE 0 END AS turn
            FROM producer_batches
            WHERE NOT control AND base_sequence >= 0 AND topic <> '__consumer_offsets'
            WINDOW in_epoch AS ({_EPOCH} ORDER BY segment, position)
        ), unrolled AS (
            SELECT *, base_sequence + 2147483648 * sum(turn) OVER ({_EPOCH} ORDER BY segment, position ROWS UNBOUNDED PRECEDING) AS sequence
            FROM turned
        ), ended AS (
            SELECT *, sequence + last_offset_delta AS sequence_end FROM unrolled
        )
        SELECT *,
            max(sequence_end) OVER before AS max_sequence_before,
            max_by(struct(base_offset, base_sequence, last_sequence, record_count, file, position, blind_before, holes_before),
                   sequence_end) OVER before AS predecessor,
            lead(sequence) OVER ({_EPOCH} ORDER BY sequence, segment, position) AS next_sequence,
            max(sequence_end) OVER ({_EPOCH} ORDER BY segment, position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                AS max_sequence_before_in_log
        FROM ended
        WINDOW before AS {_BEFORE}
    """


LATE_RETRIES: Final = """
    SELECT * FROM (
        SELECT s.log_dir, s.topic, s.partition, s.file, s.position, s.session,
            first_value(s.base_offset) OVER copies AS first_offset,
            first_value(s.session) OVER copies AS first_session,
            first_value(s.sequence) OVER copies AS first_sequence,
            lag(s.session) OVER copies AS prev_session
        FROM sequences s
        LEFT SEMI JOIN (SELECT DISTINCT log_dir, topic, partition, producer_id, producer_epoch FROM sequences WHERE session > 0) r
            ON r.log_dir = s.log_dir AND r.topic = s.topic AND r.partition = s.partition AND r.producer_id = s.producer_id
            AND r.producer_epoch = s.producer_epoch
        WINDOW copies AS (PARTITION BY s.log_dir, s.topic, s.partition, s.producer_id, s.producer_epoch, s.base_sequence, s.last_sequence,
                          s.crc ORDER BY s.segment, s.position)
    ) WHERE session > first_session
"""
"""SQL of a view with retries that seem to belong to a later session of a producer: rows of `sequences` with the sequences and the CRC of a
batch that the same producer id and epoch wrote in an earlier session. A session ends when the producer writes nothing for so long that a
broker forgets it (see `producer_batches`).

They are retries because a producer that restarts at sequence 0 sends other records or timestamps, so its batches have other CRCs. A retry
can seem to be in a later session, because sessions are derived from timestamps, and a producer may write old event times.
"""

TRANSACTIONS: Final = f"""
    SELECT log_dir, topic, partition, producer_id, ordinal,
        count_if(data) AS data_batches,
        coalesce(sum(record_count) FILTER (WHERE data), 0) AS data_records,
        min(base_offset) FILTER (WHERE data) AS first_offset,
        min({clamped("max_timestamp")}) FILTER (WHERE data) AS first_timestamp,
        max(CASE WHEN log_append_time THEN max_timestamp END) FILTER (WHERE data) AS last_append_timestamp,
        min_by(file, base_offset) FILTER (WHERE data) AS file,
        min_by(position, base_offset) FILTER (WHERE data) AS position,
        min(producer_epoch) FILTER (WHERE data) AS data_epoch,
        max(producer_epoch) FILTER (WHERE data) AS data_epoch_max,
        bool_or(data AND producer_epoch < max_epoch_before) AS after_newer_epoch,
        bool_and(base_offset < cleaned_to AND cleaned_to < 9223372036854775807) FILTER (WHERE data) AS cleaned,
        max(blind_before) FILTER (WHERE data) AS blind_at,
        max(marker) AS outcome,
        max(producer_epoch) FILTER (WHERE marker IS NOT NULL) AS marker_epoch,
        max(base_offset) FILTER (WHERE marker IS NOT NULL) AS marker_offset,
        max({clamped("max_timestamp")}) FILTER (WHERE marker IS NOT NULL) AS marker_timestamp,
        max(file) FILTER (WHERE marker IS NOT NULL) AS marker_file,
        max(position) FILTER (WHERE marker IS NOT NULL) AS marker_position
    FROM (SELECT *, transactional AND NOT control AS data FROM producer_batches)
    GROUP BY log_dir, topic, partition, producer_id, ordinal
    HAVING data_batches > 0 OR outcome IS NOT NULL
"""
"""SQL of a view with one row per transaction and partition. `outcome` is null while the transaction is open. `after_newer_epoch`: some of
the transaction's data was appended after a batch or marker of a newer epoch of the same producer."""

RAW_STATES_NEED: Final = (
    "log_dir string, topic string, partition int, segment bigint, file string, position bigint, offset bigint, timestamp bigint, "
    "transactional_id string, state string, producer_id bigint, producer_epoch int, timeout_ms int, partitions array<string>, "
    "started bigint, updated bigint, transaction_version int"
)
"""The columns of level `transactions` that views and rules read."""

STATES: Final = """
    SELECT *,
        lead(timestamp) OVER in_id AS next_timestamp,
        lead(state) OVER in_id AS next_state,
        row_number() OVER (PARTITION BY log_dir, transactional_id ORDER BY segment DESC, offset DESC) = 1 AS latest
    FROM raw_states
    WINDOW in_id AS (PARTITION BY log_dir, transactional_id ORDER BY segment, offset)
"""
"""SQL of a view with the coordinator's records in `__transaction_state`, for each transactional id in log order. `latest` marks the last
record, which is the current state."""

LOGS: Final = f"""
    SELECT log_dir, topic, partition, sum(size_bytes) AS size_bytes, max(blind_before) AS blind, min(base_offset) AS log_start,
        max(last_offset) AS last_offset, bool_or(compacted) AS compacted,
        max(CASE WHEN control OR log_append_time OR startswith(topic, '__') THEN written END) AS broker_time, max(written) AS last_time
    FROM (SELECT *, {clamped("max_timestamp")} AS written FROM batches)
    GROUP BY log_dir, topic, partition
"""
"""SQL of a view with one row per partition. `broker_time`: the partition's newest timestamp that a broker's clock set; `last_time`: its
newest timestamp, whether a broker or a producer set it."""

NEWEST_EPOCHS: Final = """
    SELECT log_dir, producer_id, max(producer_epoch) FILTER (WHERE NOT control) AS newest_epoch
    FROM producer_batches GROUP BY log_dir, producer_id
"""
"""SQL of a view with one row per producer id: the newest epoch of its data. If several tasks judge the partitions, each task has its own
row for a producer."""

UNENDED: Final = f"""
    WITH earlier AS (
        SELECT t.log_dir, t.topic, t.partition, t.first_offset, max({clamped("b.max_timestamp")}) AS broker_time
        FROM transactions t
        JOIN batches b ON b.log_dir = t.log_dir AND b.topic = t.topic AND b.partition = t.partition AND b.base_offset < t.first_offset
            AND (b.control OR b.log_append_time)
        WHERE t.outcome IS NULL AND t.data_records > 0
        GROUP BY t.log_dir, t.topic, t.partition, t.first_offset
    )
    SELECT t.*, e.broker_time AS earlier_time,
        min(t.first_offset) OVER (PARTITION BY t.log_dir, t.topic, t.partition) AS last_stable_offset
    FROM transactions t
    LEFT JOIN earlier e ON e.log_dir = t.log_dir AND e.topic = t.topic AND e.partition = t.partition AND e.first_offset = t.first_offset
    WHERE t.outcome IS NULL AND t.data_records > 0 AND NOT t.cleaned
"""
"""SQL of a view with the transactions that have no marker in their partition. A transaction below `cleaned_to` (the log cleaner's first
dirty offset) is excluded: the cleaner never passes the last stable offset, so the transaction had a marker. `earlier_time`: the newest
broker timestamp before the transaction's first batch."""

OPEN_TRANSACTIONS: Final = """
    WITH clocks AS (
        SELECT log_dir, coalesce(max(broker_time), max(last_time)) AS now FROM logs GROUP BY log_dir
    )
    SELECT t.*, l.blind > t.blind_at AS blind,
        c.now - greatest(t.first_timestamp, coalesce(t.earlier_time, t.first_timestamp)) AS age_ms,
        c.now - CASE WHEN s.state = 'Ongoing' THEN s.started ELSE s.updated END AS state_age_ms,
        p.newest_epoch, s.transactional_id, s.state, s.timeout_ms, s.producer_epoch AS state_epoch,
        array_contains(s.partitions, concat(t.topic, '-', t.partition)) AS listed,
        w.log_dir IS NOT NULL AS states_known
    FROM unended t
    JOIN logs l ON l.log_dir = t.log_dir AND l.topic = t.topic AND l.partition = t.partition
    JOIN clocks c ON c.log_dir = t.log_dir
    JOIN (SELECT log_dir, producer_id, max(newest_epoch) AS newest_epoch
          FROM newest_epochs GROUP BY log_dir, producer_id) p ON p.log_dir = t.log_dir AND p.producer_id = t.producer_id
    LEFT JOIN states s ON s.log_dir = t.log_dir AND s.producer_id = t.producer_id AND s.latest AND s.state IS NOT NULL
    LEFT JOIN complete_states w ON w.log_dir = t.log_dir
"""
"""SQL of a view that adds facts from the whole directory to each transaction without a marker (view `unended`): the transaction's age by
the directory's newest timestamp, the producer's newest epoch in any partition, and the coordinator's latest state of the producer.

`age_ms` counts from `earlier_time` if that is later than the first batch's timestamp, because a producer may write old timestamps. The
table `complete_states` has the directories that hold every partition of `__transaction_state`.
"""

RECORDS_NEED: Final = (
    "log_dir string, topic string, partition int, file string, position bigint, offset bigint, timestamp bigint, "
    "key binary, value binary, control boolean, producer_id bigint, producer_epoch int"
)
"""The columns of level `records` that all rules on records need."""
HEADERS_NEED: Final = ", headers array<struct<key:string,value:binary>>"

KEYED_RECORDS: Final = f"""
    SELECT log_dir, topic, partition, offset, {clamped("timestamp")} AS timestamp, file, position, producer_id, producer_epoch,
        xxhash64(key, value) AS content, {{rest}} AS rest, {{key}} AS business_key
    FROM records
    WHERE NOT control AND NOT startswith(topic, '__')
"""
"""SQL that reduces each record to the columns that rules read; `{key}` is one of the expressions in KEYS, `{rest}` one of those in RESTS.
`content`: a hash of key and value. The query looks at one record at a time, so several tasks may run it over parts of a partition."""

RESTS: Final = {False: "CAST(0 AS BIGINT)", True: "xxhash64(timestamp, headers)"}
"""SQL expressions for the rest of a record beside its key and value, by whether replicas are compared: only then are headers read."""

VISIBLE_RECORDS: Final = """
    WITH aborted AS (
        SELECT log_dir, file, position FROM (
            SELECT log_dir, file, position, control,
                first_value(marker, true) OVER (PARTITION BY log_dir, topic, partition, producer_id ORDER BY segment, position
                                                ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS outcome
            FROM batches WHERE transactional
        ) WHERE outcome = 'abort' AND NOT control
    )
    SELECT /*+ BROADCAST(aborted) */ *, xxhash64(log_dir, topic, business_key) AS key_hash FROM ({keyed}) AS keyed
    LEFT ANTI JOIN aborted USING (log_dir, file, position)
"""
"""SQL of a view with the records that a read_committed consumer receives, or will receive if their open transaction commits. `{keyed}` is
the query KEYED_RECORDS, or a query of its stored rows. `key_hash`: a hash of the columns that must be unique together, so that a sort
compares numbers instead of paths with long common prefixes."""

KEYS: Final = {
    "none": "CAST(NULL AS STRING)",
    "value": "get_json_object(CAST(value AS STRING), :json_path)",
    "key": "CAST(key AS STRING)",
    "header": "CAST(try_element_at(filter(headers, h -> h.key = :header), 1).value AS STRING)",
}
"""SQL expressions that read a record's business key, by the place of the key: `none`, a field of the JSON `value`, the record's `key`, or a
`header`."""

COUNTS: Final = """
    SELECT log_dir,
        count_if(error IS NULL) AS batches,
        count_if(magic < 2) AS legacy,
        count_if(transactional) AS transactional,
        coalesce(sum(CASE WHEN error IS NULL AND crc_ok AND magic = 2 AND NOT control THEN record_count END), 0) AS records
    FROM raw_batches GROUP BY log_dir
"""
PRODUCERS: Final = "SELECT log_dir, count(DISTINCT producer_id) AS producers FROM newest_epochs GROUP BY log_dir"

RAW_OFFSETS_NEED: Final = (
    "log_dir string, topic string, partition int, segment bigint, file string, position bigint, offset bigint, group_id string, "
    "committed_topic string, committed_partition int, committed_offset bigint, transactional boolean, producer_id bigint"
)

GROUP_COMMITS: Final = """
    WITH effective AS (
        SELECT o.*, concat(o.committed_topic, '-', CAST(o.committed_partition AS STRING)) AS input,
            CASE WHEN o.transactional THEN t.marker_offset ELSE o.offset END AS effective_at
        FROM raw_offsets o
        LEFT JOIN producer_batches p ON o.transactional AND p.log_dir = o.log_dir AND p.file = o.file AND p.position = o.position
        LEFT JOIN transactions t ON t.log_dir = p.log_dir AND t.topic = p.topic AND t.partition = p.partition
            AND t.producer_id = p.producer_id AND t.ordinal = p.ordinal
        WHERE NOT o.transactional OR t.outcome = 'commit'
    )
    SELECT *,
        lag(committed_offset) OVER of_input AS previous_offset,
        lag(offset) OVER of_input AS previous_at,
        lag(transactional) OVER of_input AS previous_transactional,
        lag(producer_id) OVER of_input AS previous_producer_id
    FROM effective
    WINDOW of_input AS (PARTITION BY log_dir, group_id, committed_topic, committed_partition ORDER BY effective_at, offset)
"""
"""SQL of a view with the offsets that each group committed for each input (`topic-partition`), in the order in which they took effect. An
offset committed in a transaction takes effect at the transaction's commit marker; offsets of aborted and open transactions are excluded.
`committed_offset` is null in a tombstone."""

RAW_INDEXES_NEED: Final = (
    "log_dir string, topic string, partition int, segment bigint, file string, log_start_offset bigint, clean_shutdown boolean, "
    "kind string, entry int, position bigint, offset bigint, timestamp bigint, log_position bigint, producer_id bigint, "
    "first_offset bigint, leader_epoch int, error string"
)
RAW_SNAPSHOTS_NEED: Final = (
    "log_dir string, topic string, partition int, file string, clean_shutdown boolean, snapshot_offset bigint, producer_id bigint, "
    "producer_epoch int, last_sequence int, last_offset bigint, current_txn_first_offset bigint, error string"
)

LOG_SEGMENTS: Final = """
    SELECT b.log_dir, b.topic, b.partition, b.segment, max(b.blind_before) > min(b.blind_before) AS blind,
        min(b.position) AS first_position, min(b.base_offset) AS first_offset, max(b.last_offset) AS last_offset,
        bool_or(b.clean_shutdown) AS clean_shutdown, bool_or(b.compacted) AS compacted, max(i.log_dir) IS NOT NULL AS indexed,
        b.segment = max(max(b.segment)) OVER (PARTITION BY b.log_dir, b.topic, b.partition) AS is_last
    FROM batches b
    LEFT JOIN (SELECT DISTINCT log_dir, topic, partition, segment FROM raw_indexes WHERE kind = 'index') i
        ON i.log_dir = b.log_dir AND i.topic = b.topic AND i.partition = b.partition AND i.segment = b.segment
    GROUP BY b.log_dir, b.topic, b.partition, b.segment
"""
"""SQL of a view with one row per segment that holds a batch with a correct CRC. `blind`: some bytes between its batches cannot be read.
`indexed`: its `.index` file exists."""

TIME_LOOKUPS: Final = """
    SELECT log_dir, topic, partition, segment, file, entry, offset_before AS last_offset, timestamp_before, segment_timestamp FROM (
        SELECT *,
            max(max_timestamp) OVER (PARTITION BY log_dir, topic, partition, segment) AS segment_timestamp,
            max(CASE WHEN entry IS NULL THEN at END) OVER upto AS offset_before,
            max(max_timestamp) OVER upto AS timestamp_before
        FROM (
            SELECT log_dir, topic, partition, segment, CAST(NULL AS STRING) AS file, CAST(NULL AS INT) AS entry, last_offset AS at,
                max_timestamp
            FROM batches
            UNION ALL
            SELECT log_dir, topic, partition, segment, file, entry, offset, CAST(NULL AS BIGINT)
            FROM raw_indexes WHERE kind = 'timeindex' AND error IS NULL AND entry IS NOT NULL
        )
        WINDOW upto AS (PARTITION BY log_dir, topic, partition, segment ORDER BY at, entry ROWS UNBOUNDED PRECEDING)
    ) WHERE entry IS NOT NULL
"""
"""SQL of a view with one row per entry of a time index. `segment_timestamp`: the largest timestamp of the segment's batches;
`timestamp_before`: the largest timestamp of the batches that end at or before the entry's offset."""

EPOCH_LOOKUPS: Final = """
    SELECT log_dir, topic, partition, at AS base_offset, leader_epoch, noted_epoch FROM (
        SELECT *, max(noted) OVER (PARTITION BY log_dir, topic, partition ORDER BY at, noted DESC ROWS UNBOUNDED PRECEDING) AS noted_epoch
        FROM (
            SELECT log_dir, topic, partition, base_offset AS at, leader_epoch, CAST(NULL AS INT) AS noted
            FROM batches WHERE magic = 2 AND leader_epoch >= 0
            UNION ALL
            SELECT log_dir, topic, partition, offset, CAST(NULL AS INT), leader_epoch
            FROM raw_indexes WHERE kind = 'leader-epoch-checkpoint' AND error IS NULL AND entry IS NOT NULL
        )
    ) WHERE leader_epoch IS NOT NULL AND noted_epoch IS NOT NULL
"""
"""SQL of a view with one row per batch: its `leader_epoch`, and `noted_epoch`, the leader epoch that the file `leader-epoch-checkpoint`
gives for the batch's base offset."""

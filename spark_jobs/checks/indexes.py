"""Rule `indexes`: the index files agree with the log."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="indexes",
    title="Indexes against the log",
    proves="Lookups of an offset, a time, an aborted transaction or a leader epoch agree with the log.",
    severity=Severity.VIOLATION,
    evidence=("index_offset", "index_timestamp", "log_position", "log_offset", "log_timestamp", "producer_id", "leader_epoch", "detail"),
    advice="Stop the broker, remove the segment's .index, .timeindex and .txnindex, and start it: it makes them anew from the log.",
    limits=(
        "A violation only where the broker says that it stopped cleanly: after a kill it checks the last segment's indexes and makes new "
        "ones, so there a difference is an info, and in older segments, or while the broker runs, a warning. Entries below the log "
        "start and in segments with unreadable bytes are not judged, nor aborted transactions where compaction has been. A "
        "directory without index files says nothing about them."
    ),
    sql="""
        WITH uncertain AS (
            SELECT DISTINCT log_dir, topic, partition, segment FROM raw_batches
            WHERE error IS NOT NULL OR NOT coalesce(crc_ok, true) OR magic < 2
        ), found AS (
            SELECT 'unreadable index' AS finding, i.*, CAST(NULL AS BIGINT) AS log_offset, CAST(NULL AS BIGINT) AS log_timestamp,
                i.error AS detail
            FROM raw_indexes i WHERE i.error IS NOT NULL
            UNION ALL
            SELECT CASE WHEN b.base_offset IS NULL THEN 'points to no batch' ELSE 'points to another batch' END,
                i.*, b.base_offset, CAST(NULL AS BIGINT), i.kind
            FROM raw_indexes i
            JOIN log_segments s ON s.log_dir = i.log_dir AND s.topic = i.topic AND s.partition = i.partition AND s.segment = i.segment
            LEFT JOIN batches b ON b.log_dir = i.log_dir AND b.topic = i.topic AND b.partition = i.partition AND b.segment = i.segment
                AND b.position = i.log_position
            WHERE i.kind = 'index' AND i.error IS NULL AND i.entry IS NOT NULL AND i.offset >= i.log_start_offset AND NOT s.blind
                AND i.log_position >= s.first_position
                AND (b.base_offset IS NULL OR b.base_offset > i.offset OR b.prev_last_offset >= i.offset OR s.last_offset < i.offset)
            UNION ALL
            SELECT CASE WHEN s.timestamp_before > i.timestamp THEN 'a later record lies before' ELSE 'no record has this time' END,
                i.*, s.last_offset, CASE WHEN s.timestamp_before > i.timestamp THEN s.timestamp_before ELSE s.segment_timestamp END, i.kind
            FROM raw_indexes i
            JOIN time_lookups s ON s.log_dir = i.log_dir AND s.file = i.file AND s.entry = i.entry
            LEFT JOIN uncertain u ON u.log_dir = i.log_dir AND u.topic = i.topic AND u.partition = i.partition AND u.segment = i.segment
            WHERE s.timestamp_before > i.timestamp
               OR s.segment_timestamp < i.timestamp AND i.log_start_offset <= i.segment AND u.log_dir IS NULL
            UNION ALL
            SELECT 'entries out of order', i.*, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), i.kind
            FROM raw_indexes i
            JOIN raw_indexes p ON p.log_dir = i.log_dir AND p.file = i.file AND p.entry = i.entry - 1
            WHERE i.kind = 'index' AND i.offset <= p.offset OR i.kind = 'timeindex' AND i.timestamp <= p.timestamp
            UNION ALL
            SELECT 'no such aborted transaction', i.*, b.base_offset, CAST(NULL AS BIGINT), i.kind
            FROM raw_indexes i
            JOIN batches b ON b.log_dir = i.log_dir AND b.topic = i.topic AND b.partition = i.partition
                AND i.offset BETWEEN b.base_offset AND b.last_offset
            WHERE i.kind = 'txnindex' AND i.error IS NULL AND i.entry IS NOT NULL AND NOT b.compacted
                AND NOT (coalesce(b.marker, '') = 'abort' AND b.producer_id = i.producer_id)
            UNION ALL
            SELECT 'no such aborted transaction', i.*, l.last_offset, CAST(NULL AS BIGINT), 'the log ends before it'
            FROM raw_indexes i
            JOIN logs l ON l.log_dir = i.log_dir AND l.topic = i.topic AND l.partition = i.partition
            WHERE i.kind = 'txnindex' AND i.error IS NULL AND i.entry IS NOT NULL AND i.offset > l.last_offset AND l.blind = 0
            UNION ALL
            SELECT 'aborted transaction begins elsewhere', i.*, t.first_offset, CAST(NULL AS BIGINT),
                concat('the index has ', CAST(i.first_offset AS STRING))
            FROM raw_indexes i
            JOIN transactions t ON t.log_dir = i.log_dir AND t.topic = i.topic AND t.partition = i.partition
                AND t.producer_id = i.producer_id AND t.marker_offset = i.offset
            JOIN logs l ON l.log_dir = i.log_dir AND l.topic = i.topic AND l.partition = i.partition
            WHERE i.kind = 'txnindex' AND i.error IS NULL AND i.entry IS NOT NULL AND t.data_batches > 0
                AND i.first_offset <> t.first_offset AND i.first_offset >= l.log_start AND NOT l.compacted AND l.blind = 0
            UNION ALL
            SELECT 'another leader epoch', i.*, l.base_offset, CAST(NULL AS BIGINT),
                concat('the batch has ', CAST(l.leader_epoch AS STRING))
            FROM raw_indexes i
            JOIN (
                SELECT log_dir, topic, partition, noted_epoch, min(base_offset) AS base_offset,
                    min_by(leader_epoch, base_offset) AS leader_epoch
                FROM epoch_lookups WHERE leader_epoch <> noted_epoch
                GROUP BY log_dir, topic, partition, noted_epoch
            ) l ON l.log_dir = i.log_dir AND l.topic = i.topic AND l.partition = i.partition
                AND l.noted_epoch = i.leader_epoch
            WHERE i.kind = 'leader-epoch-checkpoint' AND i.error IS NULL AND i.entry IS NOT NULL
        ), placed AS (
            SELECT finding, log_dir, topic, partition, segment, clean_shutdown, coalesce(offset, log_offset) AS offset, file, position,
                offset AS index_offset, timestamp AS index_timestamp, log_position, log_offset, log_timestamp, producer_id,
                leader_epoch, detail
            FROM found
            UNION ALL
            SELECT 'aborted transaction not in its index', t.log_dir, t.topic, t.partition, s.segment, s.clean_shutdown, t.marker_offset,
                t.marker_file, t.marker_position, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), t.marker_offset,
                t.marker_timestamp, t.producer_id, CAST(NULL AS INT), 'txnindex'
            FROM transactions t
            JOIN log_segments s ON s.log_dir = t.log_dir AND s.topic = t.topic AND s.partition = t.partition
                AND t.marker_offset BETWEEN s.first_offset AND s.last_offset AND s.indexed AND NOT s.compacted
            LEFT JOIN raw_indexes i ON i.log_dir = t.log_dir AND i.topic = t.topic AND i.partition = t.partition
                AND i.segment = s.segment AND i.kind = 'txnindex' AND i.producer_id = t.producer_id AND i.offset = t.marker_offset
            WHERE t.outcome = 'abort' AND t.data_batches > 0 AND i.log_dir IS NULL
        )
        SELECT
            CASE WHEN p.clean_shutdown THEN 'violation' WHEN coalesce(s.is_last, true) THEN 'info' ELSE 'warning' END AS severity,
            p.finding AS kind, p.log_dir, p.topic, p.partition, p.offset, p.file, coalesce(p.position, 0) AS position,
            p.index_offset, p.index_timestamp, p.log_position, p.log_offset, p.log_timestamp, p.producer_id, p.leader_epoch, p.detail
        FROM placed p
        LEFT JOIN log_segments s ON s.log_dir = p.log_dir AND s.topic = p.topic AND s.partition = p.partition AND s.segment = p.segment
    """,
    view="indexes",
    scope=Scope.PARTITION,
)

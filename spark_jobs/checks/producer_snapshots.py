"""Rule `producer-snapshots`: the producer states in `.snapshot` files agree with the producers' batches in the log."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="producer-snapshots",
    title="Producer snapshots against the log",
    proves="A broker that starts from a snapshot knows each producer's last sequence, so a retry is still recognised.",
    severity=Severity.VIOLATION,
    evidence=(
        "producer_id",
        "snapshot_epoch",
        "log_epoch",
        "snapshot_sequence",
        "log_sequence",
        "snapshot_last_offset",
        "log_last_offset",
        "snapshot_open_from",
        "log_open_from",
    ),
    advice=(
        "Stop the broker, remove the named snapshot, and start it: it reads what it needs to know of producers from the log again. Apache "
        "Kafka does so after a clean stop only where an older snapshot is left; remove its `.kafka_cleanshutdown`, too, if there is none."
    ),
    limits=(
        "Producers that a snapshot leaves out have expired, or their batches are newer. Not judged: internal topics, partitions "
        "where compaction has been, behind unreadable bytes, snapshots past the log's end, producers whose last batch is below the log's "
        "start, and transactions that began before it. "
        "A violation only where the broker says that it stopped cleanly; otherwise a warning, for it makes new "
        "snapshots when it starts."
    ),
    sql="""
        WITH merged AS (
            SELECT log_dir, topic, partition, producer_id, base_offset AS at, 1 AS after, producer_epoch,
                CASE WHEN NOT control THEN base_offset END AS data_at, last_sequence, last_offset,
                CASE WHEN NOT control THEN producer_epoch END AS data_epoch,
                compacted OR blind_before > 0 AS vague,
                CAST(NULL AS BIGINT) AS snapshot_offset, CAST(NULL AS INT) AS snapshot_epoch, CAST(NULL AS INT) AS snapshot_sequence,
                CAST(NULL AS BIGINT) AS snapshot_last_offset, CAST(NULL AS BIGINT) AS snapshot_open_from,
                CAST(NULL AS STRING) AS snapshot_file,
                CAST(NULL AS BOOLEAN) AS clean_shutdown
            FROM producer_batches WHERE NOT startswith(topic, '__')
            UNION ALL
            SELECT log_dir, topic, partition, producer_id, snapshot_offset, 0, CAST(NULL AS INT), CAST(NULL AS BIGINT), CAST(NULL AS INT),
                CAST(NULL AS BIGINT), CAST(NULL AS INT), CAST(NULL AS BOOLEAN),
                snapshot_offset, producer_epoch, last_sequence, last_offset, current_txn_first_offset, file, clean_shutdown
            FROM raw_snapshots WHERE error IS NULL AND producer_id IS NOT NULL AND NOT startswith(topic, '__')
        ), compared AS (
            SELECT *,
                max_by(producer_epoch, CASE WHEN after = 1 THEN at END) OVER before AS log_epoch,
                max_by(data_epoch, data_at) OVER before AS last_data_epoch,
                max_by(last_sequence, data_at) OVER before AS log_sequence,
                max_by(last_offset, data_at) OVER before AS log_last_offset,
                bool_or(vague) OVER (PARTITION BY log_dir, topic, partition, producer_id) AS unsure
            FROM merged
            WINDOW before AS (PARTITION BY log_dir, topic, partition, producer_id ORDER BY at, after
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        )
        SELECT * FROM (
            SELECT CASE WHEN clean_shutdown THEN 'violation' ELSE 'warning' END AS severity,
                CASE WHEN snapshot_epoch <> log_epoch THEN 'another epoch'
                     WHEN last_data_epoch = log_epoch AND snapshot_sequence <> log_sequence THEN 'another sequence'
                     WHEN last_data_epoch = log_epoch AND snapshot_last_offset <> log_last_offset THEN 'another last offset'
                     WHEN snapshot_open_from <> log_open_from AND snapshot_open_from NOT BETWEEN 0 AND log_start - 1
                     THEN 'another open transaction'
                END AS kind,
                log_dir, topic, partition, snapshot_offset AS offset, snapshot_file AS file, CAST(0 AS BIGINT) AS position,
                producer_id, snapshot_epoch, log_epoch, snapshot_sequence, log_sequence, snapshot_last_offset, log_last_offset,
                snapshot_open_from, log_open_from
            FROM (
                SELECT c.*, coalesce(o.first_offset, -1) AS log_open_from, l.log_start
                FROM compared c
                JOIN logs l ON l.log_dir = c.log_dir AND l.topic = c.topic AND l.partition = c.partition
                LEFT JOIN transactions o ON o.log_dir = c.log_dir AND o.topic = c.topic AND o.partition = c.partition
                    AND o.producer_id = c.producer_id AND o.data_batches > 0 AND o.first_offset < c.snapshot_offset
                    AND coalesce(o.marker_offset, c.snapshot_offset) >= c.snapshot_offset
            )
            WHERE snapshot_offset IS NOT NULL AND log_epoch IS NOT NULL AND NOT unsure AND log_last_offset IS NOT NULL
        )
        WHERE kind IS NOT NULL
        UNION ALL
        SELECT CASE WHEN c.clean_shutdown THEN 'violation' ELSE 'warning' END, 'no such producer',
            c.log_dir, c.topic, c.partition, c.snapshot_offset, c.snapshot_file, CAST(0 AS BIGINT),
            c.producer_id, c.snapshot_epoch, c.log_epoch, c.snapshot_sequence, c.log_sequence, c.snapshot_last_offset, c.log_last_offset,
            c.snapshot_open_from, CAST(NULL AS BIGINT)
        FROM compared c
        JOIN logs l ON l.log_dir = c.log_dir AND l.topic = c.topic AND l.partition = c.partition
        WHERE c.log_last_offset IS NULL AND c.snapshot_last_offset >= l.log_start AND c.snapshot_offset <= l.last_offset + 1
            AND NOT l.compacted AND l.blind = 0
        UNION ALL
        SELECT CASE WHEN clean_shutdown THEN 'violation' ELSE 'warning' END, 'unreadable snapshot',
            log_dir, topic, partition, snapshot_offset, file, CAST(0 AS BIGINT),
            CAST(NULL AS BIGINT), CAST(NULL AS INT), CAST(NULL AS INT), CAST(NULL AS INT), CAST(NULL AS INT),
            CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT)
        FROM raw_snapshots WHERE error IS NOT NULL
    """,
    view="snapshots",
    scope=Scope.PARTITION,
)

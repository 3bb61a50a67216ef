"""Rule `torn-transaction`: a transaction has the same outcome in all of its partitions."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="torn-transaction",
    title="Torn transactions",
    proves="No transaction is committed in one partition and aborted, or not ended, in another.",
    severity=Severity.VIOLATION,
    evidence=("producer_id", "producer_epoch", "outcome", "elsewhere", "elsewhere_outcome", "transactional_id"),
    advice=(
        "Some of the transaction is visible and some is not: repair by hand what its records did in the partitions named, and "
        "look at what the coordinator did at that time."
    ),
    limits=(
        "Which partitions belong to one transaction is known in transactions of version 2 (KIP-890: each has an epoch of its own), and "
        "from the decisions that `__transaction_state` still holds; compaction removes old ones. Transactions of version 1 share an epoch: "
        "they are matched with decisions by the time between prepare and complete, so brokers' clocks must agree. Where not all of "
        "`__transaction_state` is there, a marker may be about to be written: a warning, unless the producer has gone on since. "
        "Directories are judged each by itself; partitions in different ones are compared over the wire only. A marker missing from a "
        "partition without open data is a warning: its topic may have been deleted and made anew. Or its coordinator took it for deleted: "
        "Apache Kafka's may, when it starts again and does not know the partition's leader yet; then the records share the fate of the "
        "producer's next transaction, a violation where that is another outcome. So is data appended a second and more "
        "after the transaction's first marker, which only topics with append times show, by the clocks of their brokers."
    ),
    sql="""
        WITH ended AS (
            SELECT * FROM transactions
            WHERE outcome IS NOT NULL AND data_batches > 0 AND marker_epoch > data_epoch AND data_epoch_max = data_epoch
        ), committed AS (
            SELECT log_dir, producer_id, data_epoch, min(concat(topic, '-', partition, '@', marker_offset)) AS elsewhere
            FROM ended WHERE outcome = 'commit' GROUP BY log_dir, producer_id, data_epoch
        ), decided AS (
            SELECT log_dir, transactional_id, producer_id, producer_epoch, transaction_version >= 2 AS own_epoch, timestamp, next_timestamp,
                CASE state WHEN 'PrepareCommit' THEN 'commit' ELSE 'abort' END AS outcome, explode(partitions) AS place, file, position,
                concat(topic, '-', partition, '@', offset) AS elsewhere
            FROM states
            WHERE state IN ('PrepareCommit', 'PrepareAbort') AND next_state LIKE 'Complete%'
        ), outcomes AS (
            SELECT log_dir, producer_id, data_epoch, outcome, concat(topic, '-', partition, '@', marker_offset) AS elsewhere, NULL AS place
            FROM ended
            UNION ALL
            SELECT log_dir, producer_id, producer_epoch - 1, outcome, elsewhere, place FROM decided WHERE own_epoch
        ), judged AS (
            SELECT d.*, l.topic, l.partition, l.log_start > 0 OR l.compacted OR l.blind > 0 AS vague,
                bool_or(m.outcome = d.outcome) AS right, bool_or(m.outcome <> d.outcome) AS wrong,
                min_by(struct(m.marker_offset AS offset, m.marker_file AS file, m.marker_position AS position), m.marker_offset)
                    FILTER (WHERE m.outcome <> d.outcome) AS bad
            FROM decided d
            JOIN logs l ON l.log_dir = d.log_dir AND concat(l.topic, '-', l.partition) = d.place
            LEFT JOIN transactions m ON m.log_dir = d.log_dir AND m.topic = l.topic AND m.partition = l.partition
                AND m.producer_id = d.producer_id AND m.marker_epoch = d.producer_epoch
                AND (d.own_epoch OR m.marker_timestamp BETWEEN d.timestamp AND d.next_timestamp)
            GROUP BY ALL
        )
        SELECT 'violation' AS severity, 'committed elsewhere, aborted here' AS kind,
            a.log_dir, a.topic, a.partition, a.first_offset AS offset, a.file, a.position,
            a.producer_id, a.data_epoch AS producer_epoch, a.outcome, c.elsewhere, 'commit' AS elsewhere_outcome,
            CAST(NULL AS STRING) AS transactional_id
        FROM ended a JOIN committed c ON c.log_dir = a.log_dir AND c.producer_id = a.producer_id AND c.data_epoch = a.data_epoch
        WHERE a.outcome = 'abort'
        UNION ALL
        SELECT CASE WHEN o.blind OR (o.state IS NULL AND NOT o.states_known AND o.newest_epoch <= o.data_epoch) THEN 'warning'
                    WHEN o.state LIKE 'Prepare%' AND o.listed THEN 'info' ELSE 'violation' END,
            'committed elsewhere, open here', o.log_dir, o.topic, o.partition, o.first_offset, o.file, o.position,
            o.producer_id, o.data_epoch, 'none', c.elsewhere, 'commit', o.transactional_id
        FROM open_transactions o
        JOIN committed c ON c.log_dir = o.log_dir AND c.producer_id = o.producer_id AND c.data_epoch = o.data_epoch
        WHERE NOT coalesce(o.after_newer_epoch, false)
        UNION ALL
        SELECT 'warning', 'ended elsewhere before its last data', d.log_dir, d.topic, d.partition, d.first_offset, d.file, d.position,
            d.producer_id, d.data_epoch, coalesce(d.outcome, 'none'), e.elsewhere, e.outcome, CAST(NULL AS STRING)
        FROM transactions d
        JOIN (
            SELECT log_dir, producer_id, data_epoch, min(marker_timestamp) AS ended_at, min_by(outcome, marker_timestamp) AS outcome,
                min_by(concat(topic, '-', partition, '@', marker_offset), marker_timestamp) AS elsewhere
            FROM ended GROUP BY log_dir, producer_id, data_epoch
        ) e ON e.log_dir = d.log_dir AND e.producer_id = d.producer_id AND e.data_epoch = d.data_epoch
        WHERE d.last_append_timestamp > e.ended_at + 1000
        UNION ALL
        SELECT 'violation', 'ended by a later transaction, with another outcome', t.log_dir, t.topic, t.partition, t.first_offset, t.file,
            t.position, t.producer_id, t.data_epoch, t.outcome, min(o.elsewhere), min(o.outcome), CAST(NULL AS STRING)
        FROM transactions t
        JOIN logs l ON l.log_dir = t.log_dir AND l.topic = t.topic AND l.partition = t.partition AND NOT l.compacted AND l.blind = 0
        JOIN outcomes o ON o.log_dir = t.log_dir AND o.producer_id = t.producer_id AND o.data_epoch = t.data_epoch
            AND coalesce(o.place, concat(t.topic, '-', t.partition)) = concat(t.topic, '-', t.partition)
        WHERE t.data_epoch < t.data_epoch_max AND NOT coalesce(t.after_newer_epoch, false)
        GROUP BY t.log_dir, t.topic, t.partition, t.first_offset, t.file, t.position, t.producer_id, t.data_epoch, t.outcome
        HAVING bool_and(o.outcome <> t.outcome)
        UNION ALL
        SELECT CASE WHEN wrong THEN 'violation' ELSE 'warning' END,
            CASE WHEN wrong THEN 'against the decision of its coordinator' ELSE 'marker missing' END,
            log_dir, topic, partition, bad.offset, coalesce(bad.file, file), coalesce(bad.position, position),
            producer_id, producer_epoch, CASE WHEN wrong THEN CASE outcome WHEN 'commit' THEN 'abort' ELSE 'commit' END ELSE 'none' END,
            elsewhere, outcome, transactional_id
        FROM judged
        WHERE NOT coalesce(right, false) AND (wrong OR NOT vague)
    """,
    view="transactions",
    needs_transactions=True,
    scope=Scope.PRODUCER,
)

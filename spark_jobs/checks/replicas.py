"""Rule `replicas`: the replicas of a partition are equal byte for byte.

One task compares all replicas of a partition. If the replicas are too large for one task, several tasks read them, and pass on one row per
batch and per record to the task that compares.
"""

from ottla.spark_jobs.checks.rule import Needs, Rule, Scope, Severity

RULE = Rule(
    name="replicas",
    title="Replicas that differ",
    proves="All brokers have the same committed records: equal bytes at equal offsets.",
    severity=Severity.VIOLATION,
    evidence=("copies", "equal_copies", "crc", "expected_crc", "leader_epoch", "expected_leader_epoch", "in_directory"),
    advice=(
        "Choose which replica is right (`equal_copies`: how many have the same), stop the other's broker, remove the "
        "partition's directory there, and start it: it copies all anew."
    ),
    limits=(
        "Needs the data directories of several brokers (--replicas). Compared is what all have: from the highest log start to "
        "the lowest high watermark (`replication-offset-checkpoint`); where a directory has none, to the lowest end, and "
        "differences are warnings. The copy that most brokers have counts as right, with two the first directory's. Where "
        "compaction has been, which each broker does in its own time, records are compared at equal offsets instead of batches, "
        "and a missing one is no finding. Behind damage nothing is called missing."
    ),
    sql="""
        WITH replica AS (
            SELECT b.log_dir, b.topic, b.partition, min(b.base_offset) AS start,
                least(max(b.last_offset), 9223372036854775806) + 1 AS log_end,
                max(h.high_watermark) AS high_watermark, bool_or(b.compacted) AS compacted, max(b.blind_before) > 0 AS blind
            FROM batches b
            LEFT JOIN high_watermarks h ON h.log_dir = b.log_dir AND h.topic = b.topic AND h.partition = b.partition
            LEFT ANTI JOIN recreated_topics n ON n.topic = b.topic AND n.partition = b.partition
            GROUP BY b.log_dir, b.topic, b.partition
        ), common AS (
            SELECT topic, partition, max(start) AS start, min(coalesce(high_watermark, log_end)) AS upto, count(*) AS copies,
                CASE WHEN bool_or(high_watermark IS NULL) THEN 'warning' ELSE 'violation' END AS severity,
                bool_or(compacted) AS compacted
            FROM replica GROUP BY topic, partition HAVING count(*) > 1
        ), side AS (
            SELECT b.*, c.copies, c.severity,
                count(*) OVER (PARTITION BY b.topic, b.partition, b.base_offset) AS holders,
                count(*) OVER (PARTITION BY b.topic, b.partition, b.base_offset, b.crc, b.size_bytes, b.leader_epoch, b.last_offset)
                    AS equal_copies
            FROM batches b JOIN common c ON c.topic = b.topic AND c.partition = b.partition
            WHERE b.base_offset >= c.start AND b.last_offset < c.upto AND NOT c.compacted
        ), compared AS (
            SELECT *,
                first_value(crc) OVER votes AS expected_crc,
                first_value(size_bytes) OVER votes AS expected_size,
                first_value(leader_epoch) OVER votes AS expected_leader_epoch,
                first_value(last_offset) OVER votes AS expected_last_offset,
                first_value(log_dir) OVER votes AS in_directory
            FROM side
            WINDOW votes AS (PARTITION BY topic, partition, base_offset ORDER BY equal_copies DESC, log_dir)
        ), opened AS (
            SELECT r.*, c.copies, c.severity,
                count(*) OVER (PARTITION BY r.topic, r.partition, r.offset, r.content, r.rest) AS equal_copies
            FROM visible_records r JOIN common c ON c.topic = r.topic AND c.partition = r.partition
            WHERE r.offset >= c.start AND r.offset < c.upto AND c.compacted
        ), opened_compared AS (
            SELECT *,
                first_value(content) OVER votes AS expected_content,
                first_value(rest) OVER votes AS expected_rest,
                first_value(log_dir) OVER votes AS in_directory
            FROM opened
            WINDOW votes AS (PARTITION BY topic, partition, offset ORDER BY equal_copies DESC, log_dir)
        )
        SELECT severity, 'different bytes' AS kind, log_dir, topic, partition, base_offset AS offset, file, position,
            copies, equal_copies, crc, expected_crc, leader_epoch, expected_leader_epoch, in_directory
        FROM compared
        WHERE crc <> expected_crc OR size_bytes <> expected_size OR leader_epoch <> expected_leader_epoch
            OR last_offset <> expected_last_offset
        UNION ALL
        SELECT s.severity, 'missing here', t.log_dir, s.topic, s.partition, s.base_offset, s.file, s.position,
            s.copies, s.equal_copies, CAST(NULL AS BIGINT), s.crc, CAST(NULL AS INT), s.leader_epoch, s.log_dir
        FROM compared s
        JOIN replica t ON t.topic = s.topic AND t.partition = s.partition AND NOT t.blind
        LEFT ANTI JOIN side m ON m.log_dir = t.log_dir AND m.topic = s.topic AND m.partition = s.partition
            AND m.base_offset = s.base_offset
        WHERE s.holders < s.copies AND s.log_dir = s.in_directory
        UNION ALL
        SELECT severity, 'different records', log_dir, topic, partition, offset, file, position,
            copies, equal_copies, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS INT), CAST(NULL AS INT), in_directory
        FROM opened_compared
        WHERE content <> expected_content OR rest <> expected_rest
    """,
    view="replicas",
    needs=Needs.REPLICAS,
    scope=Scope.PARTITION,
)

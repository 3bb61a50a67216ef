"""Rule `log-end`: a log does not end below its checkpointed high watermark."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="log-end",
    title="Logs that end too early",
    proves="No log ends below its checkpointed high watermark: no record that consumers could read was lost from its end.",
    severity=Severity.VIOLATION,
    evidence=("log_end", "high_watermark", "missing"),
    advice=(
        "Records that consumers could read are gone from the end of this log: restore the partition from a replica that reaches further, "
        "before the broker starts and gives their offsets to others."
    ),
    limits=(
        "Asks `replication-offset-checkpoint`, which brokers write every few seconds and when they stop: what came later may be gone "
        "without a trace. A violation only where the broker says that it stopped cleanly; otherwise a warning, for a topic that was "
        "deleted and made anew within those seconds is still noted with the old one's. Damaged bytes at the end are rule `crc`'s."
    ),
    sql="""
        SELECT CASE WHEN clean_shutdown THEN 'violation' ELSE 'warning' END AS severity, 'ends below its high watermark' AS kind,
            log_dir, topic, partition, log_end AS offset, file, position,
            log_end, high_watermark, high_watermark - log_end AS missing
        FROM (
            SELECT e.*, greatest(e.base_offset, e.log_start_offset, coalesce(b.last_offset, -1) + 1) AS log_end
            FROM log_ends e
            LEFT JOIN (
                SELECT log_dir, topic, partition, max(last_offset) AS last_offset, count_if(NOT coalesce(torn, true)) AS damaged
                FROM raw_batches GROUP BY log_dir, topic, partition
            ) b ON b.log_dir = e.log_dir AND b.topic = e.topic AND b.partition = e.partition
            WHERE coalesce(b.damaged, 0) = 0 AND coalesce(b.last_offset, 0) < 9223372036854775807
        )
        WHERE log_end < high_watermark
    """,
    view="log_ends",
    scope=Scope.PARTITION,
)

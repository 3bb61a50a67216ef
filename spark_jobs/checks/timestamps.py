"""Rule `timestamps`: a batch's largest timestamp is that of its records, and timestamps set by brokers do not decrease."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity
from ottla.spark_jobs.views import clamped

RULE = Rule(
    name="timestamps",
    title="Timestamps",
    proves="Lookups and retention by time use the records' real timestamps.",
    severity=Severity.WARNING,
    evidence=("max_timestamp", "found_max_timestamp", "prev_append_time"),
    advice="Nothing is lost, but lookups and retention by time go wrong here: set the clock right, or the client that writes the times.",
    limits=(
        "A wrong header is a warning: nothing is lost, but ListOffsets and retention go by it. Append times that fall by more than a "
        "minute are an info: a clock was set back, or a new leader's is behind. With append times the records' own are not looked at; "
        "batches that compaction emptied keep a time that no record has."
    ),
    sql=f"""
        SELECT * FROM (
            SELECT
                CASE WHEN NOT log_append_time THEN 'warning' ELSE 'info' END AS severity,
                CASE WHEN NOT log_append_time AND record_count > 0 AND found_max_timestamp <> max_timestamp
                     THEN 'largest timestamp is not that of the records'
                     WHEN log_append_time AND {clamped("max_timestamp")} < {clamped("prev_append_time")} - 60000 THEN 'append time regress'
                END AS kind,
                log_dir, topic, partition, base_offset AS offset, file, position,
                max_timestamp, found_max_timestamp, prev_append_time
            FROM (
                SELECT *, max(CASE WHEN log_append_time THEN max_timestamp END) OVER (
                    PARTITION BY log_dir, topic, partition ORDER BY segment, position
                    ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS prev_append_time
                FROM batches
                WHERE magic = 2
            )
        )
        WHERE kind IS NOT NULL
    """,
    scope=Scope.PARTITION,
)

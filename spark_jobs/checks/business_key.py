"""Rule `business-key`: no two visible records of a topic carry the same key of the application's own."""

from spark_jobs.checks.rule import Rule, Severity

RULE = Rule(
    name="business-key",
    title="Duplicate business keys",
    proves="What the application calls one thing is in the topic once: the duplicate that nothing on the wire marks.",
    severity=Severity.VIOLATION,
    evidence=("business_key", "copy", "first_partition", "first_offset", "producer_id"),
    limits=(
        "Needs a field (--key-field) that is unique by intent. Records whose value is not JSON or lacks the field are not judged."
        " Internal topics are left out, "
        "and records of transactions that the log shows aborted are not visible to a reader of committed data and do not count."
    ),
    sql="""
        SELECT
            'violation' AS severity, 'key seen before' AS kind,
            log_dir, topic, partition, offset, file, position,
            business_key, copy, first_partition, first_offset, producer_id
        FROM (
            SELECT *,
                row_number() OVER w AS copy,
                first_value(partition) OVER w AS first_partition,
                first_value(offset) OVER w AS first_offset
            FROM keyed_records
            WINDOW w AS (PARTITION BY hash, log_dir, topic, business_key ORDER BY timestamp, partition, offset)
        )
        WHERE copy > 1
    """,
    view="keyed_records",
)

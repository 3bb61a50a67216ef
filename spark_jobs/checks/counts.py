"""Rule `counts`: a batch header's record count and offset range agree with the batch's records."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="counts",
    title="Counts that disagree",
    proves=(
        "Each batch holds as many readable records as its header says, at offsets inside its range, and the range has no unexplained holes."
    ),
    severity=Severity.VIOLATION,
    evidence=("record_count", "last_offset_delta", "records_found", "detail"),
    advice=(
        "Consumers may fail here: find out which client and which broker wrote this batch, and restore the partition from a "
        "replica that has no finding here."
    ),
    limits=(
        "In Kafka's own topics a coordinator writes in a producer's name, and without a sequence. "
        "Fewer records than offsets is what compaction leaves: no finding in a partition that the cleaner's checkpoint, an "
        "internal topic's name, a delete horizon, "
        "an emptied batch, or a batch whose records' own offsets leave holes (no producer can write one) marks as compacted. "
        "A compressed section that gives more than 64 MiB, or has more than 1,000,000 records, is not opened, and a warning: nothing is "
        "known of its records."
    ),
    sql="""
        SELECT * FROM (
            SELECT
                CASE WHEN records_fault LIKE 'not opened: %' THEN 'warning' ELSE 'violation' END AS severity,
                CASE WHEN records_fault LIKE 'not opened: %' THEN 'records not opened'
                     WHEN records_fault IS NOT NULL THEN 'records unreadable'
                     WHEN record_count < 0 OR last_offset_delta < 0 THEN 'negative count'
                     WHEN producer_id >= 0 AND base_sequence < 0 AND NOT control AND NOT startswith(topic, '__')
                     THEN 'producer without a sequence'
                     WHEN record_count > CAST(last_offset_delta AS BIGINT) + 1 THEN 'more records than offsets'
                     WHEN record_count < CAST(last_offset_delta AS BIGINT) + 1 AND NOT compacted THEN 'fewer records than offsets'
                END AS kind,
                log_dir, topic, partition, base_offset AS offset, file, position,
                record_count, last_offset_delta, records_found, coalesce(records_fault, '') AS detail
            FROM batches
            WHERE magic = 2
        )
        WHERE kind IS NOT NULL
    """,
    scope=Scope.PARTITION,
)

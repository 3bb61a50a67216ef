"""Rule `offsets`: in file order, the batches' offset ranges rise, do not overlap, and lie inside their segment."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="offsets",
    title="Offsets regress or overlap",
    proves="No offset was assigned twice, and none was assigned after a higher one.",
    severity=Severity.VIOLATION,
    evidence=("last_offset", "prev_base_offset", "prev_last_offset", "segment", "detail"),
    advice=(
        "Restore the partition from a replica that has no finding here (--replicas compares them). A gap alone may be "
        "compaction that left no trace."
    ),
    limits=(
        "Each batch is compared with the trusted batch before it: where order breaks there is one finding, not one per batch behind it. "
        "Missing offsets are a warning (info in a compacted partition): rule `sequence-gap` says whether an idempotent producer's"
        " records are missing with them. "
        "Holes beside unreadable bytes are not judged."
    ),
    sql="""
        SELECT * FROM (
            SELECT
                CASE WHEN base_offset < segment OR base_offset < prev_base_offset OR base_offset <= prev_last_offset THEN 'violation'
                     WHEN legal_hole THEN 'info' ELSE 'warning' END AS severity,
                CASE WHEN base_offset < segment THEN 'below its segment'
                     WHEN base_offset < prev_base_offset THEN 'offset regress'
                     WHEN base_offset <= prev_last_offset THEN 'offset overlap'
                     WHEN hole > 0 THEN 'offset gap'
                END AS kind,
                log_dir, topic, partition, base_offset AS offset, file, position,
                last_offset, prev_base_offset, prev_last_offset, segment,
                CASE WHEN hole > 0 THEN concat(CAST(hole AS STRING), ' offsets missing') ELSE '' END AS detail
            FROM batches
        )
        WHERE kind IS NOT NULL
    """,
    scope=Scope.PARTITION,
)

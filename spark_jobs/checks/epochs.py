"""Rule `epochs`: a producer's epoch never decreases, and each new epoch starts at sequence 0."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="epochs",
    title="Producer epochs",
    proves="No producer instance wrote after a newer one took over its id (a zombie), and none continued another's sequence.",
    severity=Severity.VIOLATION,
    evidence=("producer_id", "producer_epoch", "base_sequence", "max_epoch_before", "prev_epoch"),
    advice="Find out which instance of the producer wrote here after it had been replaced, and what its records did downstream.",
    limits=(
        "Transaction markers count as sightings of an epoch; transactional batches of old epochs are rule `zombie-batch`'s. "
        "After a silence longer than producer.id.expiration.ms a broker knows no epoch any more, and any may follow. "
        "A start above 0 is legal where compaction or unreadable bytes can have taken the batches before it."
    ),
    sql="""
        SELECT
            'violation' AS severity,
            CASE WHEN producer_epoch < max_epoch_before THEN 'epoch regress' ELSE 'new epoch not at 0' END AS kind,
            log_dir, topic, partition, base_offset AS offset, file, position,
            producer_id, producer_epoch, base_sequence, max_epoch_before, prev_epoch
        FROM producer_batches
        WHERE (producer_epoch < max_epoch_before AND (control OR NOT transactional))
           OR (NOT control AND prev_epoch < producer_epoch AND base_sequence <> 0 AND blind_before = prev_blind_before
               AND holes_before - prev_holes_before < base_sequence)
    """,
    view="producer_batches",
    scope=Scope.PARTITION,
)

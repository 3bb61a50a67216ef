"""Rule `sequence-order`: a producer's sequences rise with the offsets of its batches."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="sequence-order",
    title="Sequences out of order",
    proves="The batches of an idempotent producer are in the order in which it sent them, with several requests in flight too.",
    severity=Severity.VIOLATION,
    evidence=("producer_id", "producer_epoch", "base_sequence", "last_sequence", "behind_sequence"),
    advice="Consumers get these records in another order than they were sent in: do not rely on it here, and ask whoever made the broker.",
    limits="A batch that repeats sequences is rule `duplicate-sequence`'s finding and none here. Plain producers have no order to check.",
    sql="""
        SELECT
            'violation' AS severity, 'arrived late' AS kind,
            log_dir, topic, partition, base_offset AS offset, file, position,
            producer_id, producer_epoch, base_sequence, last_sequence,
            CAST(max_sequence_before_in_log % 2147483648 AS INT) AS behind_sequence
        FROM sequences
        LEFT ANTI JOIN late_retries USING (log_dir, file, position)
        WHERE sequence < max_sequence_before_in_log
          AND (max_sequence_before IS NULL OR sequence > max_sequence_before)
          AND (next_sequence IS NULL OR next_sequence > sequence_end)
    """,
    view="sequences",
    scope=Scope.PARTITION,
)

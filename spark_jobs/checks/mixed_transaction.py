"""Rule `mixed-transaction`: a producer's open transaction contains no non-transactional batch of the same producer."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="mixed-transaction",
    title="Plain batches in transactions",
    proves="Every batch of a transactional producer between its first batch and the marker is part of the transaction.",
    severity=Severity.VIOLATION,
    evidence=("producer_id", "producer_epoch", "base_sequence", "transaction_began"),
    advice="These records were visible at once, whatever became of the transaction: the broker that let them in breaks Kafka's rules.",
    limits="Looks within one partition. Before a transaction's first batch and after its marker a plain batch is legal.",
    sql="""
        SELECT
            'violation' AS severity, 'plain batch in an open transaction' AS kind,
            log_dir, topic, partition, base_offset AS offset, file, position,
            producer_id, producer_epoch, base_sequence, transaction_began
        FROM (
            SELECT *, min(base_offset) FILTER (WHERE transactional AND NOT control) OVER (
                PARTITION BY log_dir, topic, partition, producer_id, ordinal ORDER BY segment, position
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS transaction_began
            FROM producer_batches
        )
        WHERE NOT transactional AND NOT control AND transaction_began IS NOT NULL
    """,
    view="transactions",
    needs_transactions=True,
    scope=Scope.PARTITION,
)

"""Rule `transaction-epochs`: each transaction of version 2 (KIP-890) has its own producer epoch."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="transaction-epochs",
    title="Transactions sharing an epoch",
    proves="Every end of a transaction of version 2 increased the producer's epoch (KIP-890), so no delayed request affects the next one.",
    severity=Severity.VIOLATION,
    evidence=("producer_id", "producer_epoch", "marker", "marker_offset", "transactional_id"),
    advice="The broker wrote a marker without raising the epoch: a delayed request can get into the producer's next transaction.",
    limits=(
        "Judges the transactions whose decision `__transaction_state` still holds and says to be of version 2; compaction removes old "
        "ones. They are matched by time, so brokers' clocks must agree. Transactions of version 1 share an epoch by design. Data of a "
        "lower epoch than a marker before it is rule `zombie-batch`'s."
    ),
    sql="""
        SELECT 'violation' AS severity, 'marker without a new epoch' AS kind,
            t.log_dir, t.topic, t.partition, t.first_offset AS offset, t.file, t.position,
            t.producer_id, t.data_epoch_max AS producer_epoch, t.outcome AS marker, t.marker_offset, d.transactional_id
        FROM transactions t
        JOIN states d ON d.log_dir = t.log_dir AND d.producer_id = t.producer_id AND d.producer_epoch = t.marker_epoch
            AND t.marker_timestamp BETWEEN d.timestamp AND coalesce(d.next_timestamp, t.marker_timestamp)
        WHERE d.state IN ('PrepareCommit', 'PrepareAbort') AND d.transaction_version >= 2
            AND t.outcome IS NOT NULL AND t.data_batches > 0 AND t.data_epoch_max >= t.marker_epoch
    """,
    view="transactions",
    needs_transactions=True,
    scope=Scope.PRODUCER,
)

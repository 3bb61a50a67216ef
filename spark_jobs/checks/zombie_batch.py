"""Rule `zombie-batch`: no transactional data is appended with a producer epoch that was already fenced."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="zombie-batch",
    title="Zombie batches",
    proves="No transactional batch follows a marker or a batch of a newer epoch of its producer: fenced producers wrote nothing.",
    severity=Severity.VIOLATION,
    evidence=("producer_id", "producer_epoch", "newest_epoch", "base_sequence", "record_count"),
    advice=(
        "These records came after their transaction had ended: who reads them takes part in what was never committed. Find the "
        "instance that was fenced, and let clients use transactions of version 2."
    ),
    limits=(
        "A marker of the batch's own epoch does not outrank it: in transactions of version 1 the next transaction of a producer has the "
        "same epoch, and a batch that was delayed into it looks like any other (KIP-890); if nothing ends it, rule `hanging-transaction` "
        "shows it. Partitions are judged one by one. Plain batches of old epochs are rule `epochs`'s."
    ),
    sql="""
        SELECT
            'violation' AS severity,
            CASE WHEN producer_epoch < max_marker_epoch_before THEN 'behind a marker' ELSE 'behind a newer epoch' END AS kind,
            log_dir, topic, partition, base_offset AS offset, file, position,
            producer_id, producer_epoch, max_epoch_before AS newest_epoch, base_sequence, record_count
        FROM (
            SELECT *, max(producer_epoch) FILTER (WHERE control) OVER (
                PARTITION BY log_dir, topic, partition, producer_id, session ORDER BY segment, position
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS max_marker_epoch_before
            FROM producer_batches
        )
        WHERE transactional AND NOT control AND producer_epoch < max_epoch_before
    """,
    view="transactions",
    needs_transactions=True,
    scope=Scope.PARTITION,
)

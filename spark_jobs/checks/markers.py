"""Rule `markers`: the coordinator epochs of a producer's transaction markers never decrease, and each commit marker ends a transaction with
data."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="markers",
    title="Transaction markers",
    proves="No replaced coordinator ended a transaction: the coordinator epochs of a producer's markers never decrease.",
    severity=Severity.VIOLATION,
    evidence=("producer_id", "producer_epoch", "marker", "coordinator_epoch", "newest_coordinator_epoch"),
    advice="Look at which coordinators ended transactions at that time: one that was replaced went on.",
    limits=(
        "A commit without data is an info: a coordinator writes its markers again when it was killed before it could note that they are "
        "written, and data may be compacted away or deleted, where nothing is said. An abort without data is ordinary: a partition is "
        "named before anything is sent to it. A commit and an abort of one epoch, which was raised by the first and has no data between "
        "them, is a warning: the first marker decides here, and the transaction's other partitions may have the second. Where "
        "compaction or unreadable bytes may hide such data, nothing is said."
    ),
    sql="""
        SELECT * FROM (
            SELECT
                CASE WHEN coordinator_epoch < newest_coordinator_epoch THEN 'violation' WHEN contradicts THEN 'warning' ELSE 'info' END
                    AS severity,
                CASE WHEN coordinator_epoch < newest_coordinator_epoch THEN 'coordinator epoch regress'
                     WHEN contradicts THEN 'another outcome of the same epoch'
                     WHEN marker = 'commit' AND NOT preceded AND NOT compacted AND blind_before = 0 AND (ordinal > 0 OR log_start = 0)
                     THEN 'commit of nothing'
                END AS kind,
                log_dir, topic, partition, base_offset AS offset, file, position,
                producer_id, producer_epoch, marker, coordinator_epoch, newest_coordinator_epoch
            FROM (
                SELECT *,
                    max(coordinator_epoch) OVER (
                        PARTITION BY log_dir, topic, partition, producer_id ORDER BY segment, position
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS newest_coordinator_epoch,
                    bool_or(transactional AND NOT control) OVER (PARTITION BY log_dir, topic, partition, producer_id, ordinal) AS preceded,
                    min(base_offset) OVER (PARTITION BY log_dir, topic, partition) AS log_start,
                    lag(marker) OVER in_log <> marker AND lag(producer_epoch) OVER in_log = producer_epoch
                        AND lag(producer_epoch, 2) OVER in_log < producer_epoch
                        AND NOT (lag(compacted) OVER in_log OR lag(compacted, 2) OVER in_log)
                        AND lag(blind_before, 2) OVER in_log = blind_before AS contradicts
                FROM producer_batches
                WINDOW in_log AS (PARTITION BY log_dir, topic, partition, producer_id ORDER BY segment, position)
            )
            WHERE marker IS NOT NULL
        )
        WHERE kind IS NOT NULL
    """,
    view="transactions",
    needs_transactions=True,
    scope=Scope.PARTITION,
)

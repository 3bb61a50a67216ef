"""Rule `leader-epochs`: the leader epochs of a partition's batches never decrease."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="leader-epochs",
    title="Leader epochs",
    proves="No replaced leader wrote into the log: followers truncated where they had to, and no offset was written twice.",
    severity=Severity.VIOLATION,
    evidence=("leader_epoch", "newest_leader_epoch", "prev_base_offset"),
    advice="Compare with the other replicas (--replicas), and let this one be copied anew from the leader.",
    limits=(
        "The leader epoch lies outside the CRC. Batches without one (-1, or in the formats before v2) are passed over; compaction keeps "
        "it. One finding a fall, not one per batch behind it."
    ),
    sql="""
        SELECT 'violation' AS severity, 'leader epoch regress' AS kind,
            log_dir, topic, partition, base_offset AS offset, file, position,
            leader_epoch, newest_leader_epoch, prev_base_offset
        FROM (
            SELECT *,
                max(leader_epoch) OVER (PARTITION BY log_dir, topic, partition ORDER BY segment, position
                                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS newest_leader_epoch,
                lag(leader_epoch) OVER (PARTITION BY log_dir, topic, partition ORDER BY segment, position) AS prev_leader_epoch
            FROM batches
            WHERE magic = 2 AND leader_epoch >= 0
        )
        WHERE leader_epoch < newest_leader_epoch AND leader_epoch < prev_leader_epoch
    """,
    scope=Scope.PARTITION,
)

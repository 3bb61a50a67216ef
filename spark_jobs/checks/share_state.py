"""Rule `share-state`: no record of a share group's state contradicts the records before it.

One task reads all partitions of `__share_group_state` of a directory and evaluates the rule. These partitions are never divided among
tasks, because in a damaged log several of them may hold the same share partition.
"""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

DELIVERY_COUNT_MAX = 25
"""The highest value that group.share.max.delivery.count.limit can have."""

RULE = Rule(
    name="share-state",
    title="Impossible share group state",
    proves="A share coordinator that loads `__share_group_state` gets a state that it has written, and no share partition went back.",
    severity=Severity.VIOLATION,
    evidence=("group_id", "topic_id", "share_partition", "value", "before"),
    advice=(
        "The share coordinator lost records, or a replaced one or a replaced leader wrote: the group may be delivered records again that "
        "it has accepted, or never get others. Alter the group's offsets to start it anew."
    ),
    limits=(
        "Superseded records are deleted, so old errors may be gone. A snapshot without state batches in leader epoch 0 counts as an "
        "initialization, which may go back. Updates that follow unreadable bytes may lack their snapshot. The group's own delivery limit "
        "is not in the log: only the highest that a broker allows is checked."
    ),
    sql=f"""
        SELECT 'violation' AS severity, kind, log_dir, topic, partition, offset, file, position,
            group_id, topic_id, share_partition, value, before
        FROM (
            SELECT 'update without a snapshot' AS kind, s.*, CAST(s.snapshot_epoch AS BIGINT) AS value, CAST(NULL AS BIGINT) AS before
            FROM share_states s
            JOIN logs l ON l.log_dir = s.log_dir AND l.topic = s.topic AND l.partition = s.partition AND l.blind = 0
            WHERE s.record = 'update' AND s.previous_snapshot_epoch IS NULL
                AND (s.existence > 0 OR s.last_snapshot_at IS NULL OR l.log_start = 0)
            UNION ALL
            SELECT 'update of another snapshot', *, CAST(snapshot_epoch AS BIGINT), CAST(previous_snapshot_epoch AS BIGINT)
            FROM share_states WHERE record = 'update' AND snapshot_epoch <> previous_snapshot_epoch
            UNION ALL
            SELECT 'snapshot epoch went back', *, CAST(snapshot_epoch AS BIGINT), CAST(previous_snapshot_epoch AS BIGINT)
            FROM share_states WHERE record = 'snapshot' AND snapshot_epoch <= previous_snapshot_epoch
            UNION ALL
            SELECT 'state epoch went back', *, CAST(state_epoch AS BIGINT), CAST(previous_state_epoch AS BIGINT)
            FROM share_states WHERE state_epoch >= 0 AND state_epoch < previous_state_epoch
            UNION ALL
            SELECT 'leader epoch went back', *, CAST(share_leader_epoch AS BIGINT), CAST(previous_leader_epoch AS BIGINT)
            FROM share_states WHERE share_leader_epoch >= 0 AND share_leader_epoch < previous_leader_epoch
            UNION ALL
            SELECT 'start offset went back', *, start_offset, previous_start_offset
            FROM share_states WHERE start_offset >= 0 AND start_offset < previous_start_offset
        )
        UNION ALL
        SELECT 'violation' AS severity, kind, log_dir, topic, partition, offset, file, position,
            group_id, topic_id, share_partition, value, before
        FROM (
            SELECT *,
                CASE
                    WHEN record = 'unreadable' THEN 'unreadable record'
                    WHEN first_offset < 0 OR last_offset < first_offset THEN 'impossible state batch'
                    WHEN first_offset <= previous_last THEN 'overlapping state batches'
                    WHEN first_offset < start_offset THEN 'state below the start offset'
                    WHEN delivery_state NOT IN (0, 2, 3, 4) THEN 'impossible delivery state'
                    WHEN delivery_count < 0 OR delivery_count > {DELIVERY_COUNT_MAX} THEN 'impossible delivery count'
                END AS kind,
                CASE
                    WHEN first_offset < 0 OR last_offset < first_offset THEN last_offset
                    WHEN first_offset <= previous_last OR first_offset < start_offset THEN first_offset
                    WHEN delivery_state NOT IN (0, 2, 3, 4) THEN CAST(delivery_state AS BIGINT)
                    ELSE CAST(delivery_count AS BIGINT)
                END AS value,
                CASE
                    WHEN first_offset < 0 OR last_offset < first_offset THEN first_offset
                    WHEN first_offset <= previous_last THEN previous_last
                    WHEN first_offset < start_offset THEN start_offset
                END AS before
            FROM (
                SELECT *, lag(last_offset) OVER (PARTITION BY log_dir, partition, offset ORDER BY batch) AS previous_last
                FROM raw_share_states
            )
        ) WHERE kind IS NOT NULL
    """,
    view="share_states",
    scope=Scope.PARTITION,
)

"""Rule `share-delivery`: an accepted or archived record is not delivered again, and a snapshot loses no record's state.

One task reads all partitions of `__share_group_state` of a directory and evaluates the rule. These partitions are never divided among
tasks, because in a damaged log several of them may hold the same share partition.
"""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="share-delivery",
    title="Share group deliveries that go back",
    proves="No record that a share group had accepted or archived was delivered to it again, and no snapshot forgot a record's state.",
    severity=Severity.VIOLATION,
    evidence=("group_id", "topic_id", "share_partition", "record_offset", "records", "delivery_count", "previous_count"),
    advice=(
        "A record that a snapshot forgot is delivered again. A record that is delivered again after it was accepted may have been "
        "processed twice: if its acknowledgement was answered without an error, the broker broke its promise."
    ),
    limits=(
        "Covers the records whose state the log still holds: superseded records of the state are deleted. Delivered again is a warning: "
        "the leader may have missed the coordinator's response and reported an error to the consumer, which is at-least-once's right. "
        "Acquisitions are not persisted, so deliveries without an answer do not show. State batches of over 65536 offsets are left out."
    ),
    sql="""
        SELECT 'warning' AS severity,
            CASE WHEN previous_end % 8 = 2 THEN 'delivered again after it was accepted' ELSE 'delivered again after it was archived' END
                AS kind,
            log_dir, topic, partition, offset, file, position, group_id, topic_id, share_partition,
            min(record_offset) AS record_offset, count(*) AS records, CAST(max(delivery_count) AS BIGINT) AS delivery_count,
            CAST(floor(max(previous_end) / 8) AS BIGINT) AS previous_count
        FROM share_records WHERE delivery_count * 8 > previous_end AND previous_rank = previous_end
        GROUP BY log_dir, topic, partition, offset, file, position, group_id, topic_id, share_partition, previous_end % 8
        UNION ALL
        SELECT 'violation', 'snapshot went back', log_dir, topic, partition, offset, file, position, group_id, topic_id, share_partition,
            min(record_offset), count(*), CAST(max(delivery_count) AS BIGINT), CAST(floor(max(previous_rank) / 8) AS BIGINT)
        FROM share_records WHERE record = 'snapshot' AND rank < previous_rank
        GROUP BY log_dir, topic, partition, offset, file, position, group_id, topic_id, share_partition
        UNION ALL
        SELECT 'violation', 'snapshot without the state of a record', s.log_dir, s.topic, s.partition, s.offset, s.file, s.position,
            s.group_id, s.topic_id, s.share_partition, min(r.record_offset), count(DISTINCT r.record_offset), CAST(NULL AS BIGINT),
            CAST(max(r.delivery_count) AS BIGINT)
        FROM share_records r
        JOIN share_states s ON s.log_dir = r.log_dir AND s.partition = r.partition AND s.offset = r.next_snapshot_at
        LEFT JOIN share_records k ON k.log_dir = r.log_dir AND k.partition = r.partition AND k.offset = r.next_snapshot_at
            AND k.record_offset = r.record_offset
        WHERE r.record_offset >= r.next_snapshot_start AND k.log_dir IS NULL
        GROUP BY s.log_dir, s.topic, s.partition, s.offset, s.file, s.position, s.group_id, s.topic_id, s.share_partition
    """,
    view="share_records",
    scope=Scope.PARTITION,
)

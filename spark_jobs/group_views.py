"""SQL of the views that rules on groups and share groups query.

Invariants:
- The state of a group, or of a share partition, is derived from the records of one log partition, because its key hashes to that partition.
- The records of a log partition are ordered by offset, even across segments. The records of one batch take effect together.
"""

from __future__ import annotations

from typing import Final

from ottla.spark_jobs.views import clamped

WIDTH_MAX: Final = 1 << 16
"""The maximum number of offsets in a state batch that is judged. A damaged batch may claim any number of offsets, and each offset becomes
one row. The limit is several times group.share.max.partition.max.record.locks (10000)."""

RAW_SHARE_STATES_NEED: Final = (
    "log_dir string, topic string, partition int, file string, position bigint, offset bigint, log_start_offset bigint, record string, "
    "group_id string, topic_id string, share_partition int, snapshot_epoch int, state_epoch int, share_leader_epoch int, "
    "start_offset bigint, delivery_complete_count int, batch int, first_offset bigint, last_offset bigint, delivery_state int, "
    "delivery_count int"
)
RAW_GROUPS_NEED: Final = (
    "log_dir string, topic string, partition int, file string, position bigint, base_offset bigint, offset bigint, record string, "
    "group_type string, group_id string, member_id string, deleted boolean, epoch int, tasks array<string>"
)

SHARE_STATES: Final = """
    WITH records AS (
        SELECT *, record = 'snapshot' AND batch IS NULL AND share_leader_epoch = 0 AS begins
        FROM raw_share_states WHERE coalesce(batch, 0) = 0 AND record <> 'unreadable'
    ), lives AS (
        SELECT *,
            sum(CASE WHEN record = 'tombstone' THEN 1 ELSE 0 END) OVER so_far AS existence,
            sum(CASE WHEN record = 'tombstone' OR begins THEN 1 ELSE 0 END) OVER so_far AS life,
            max(CASE WHEN record <> 'update' THEN offset END) OVER whole AS last_snapshot_at,
            offset = max(offset) OVER whole AS newest
        FROM records
        WINDOW whole AS (PARTITION BY log_dir, partition, group_id, topic_id, share_partition),
            so_far AS (PARTITION BY log_dir, partition, group_id, topic_id, share_partition ORDER BY offset ROWS UNBOUNDED PRECEDING)
    )
    SELECT *,
        max(CASE WHEN record = 'snapshot' THEN snapshot_epoch END) OVER in_existence AS previous_snapshot_epoch,
        max(state_epoch) OVER in_existence AS previous_state_epoch,
        max(share_leader_epoch) OVER in_life AS previous_leader_epoch,
        max(start_offset) OVER in_life AS previous_start_offset,
        min(CASE WHEN record = 'snapshot' THEN offset END) OVER after_it AS next_snapshot_at,
        first_value(CASE WHEN record = 'snapshot' THEN start_offset END, true) OVER after_it AS next_snapshot_start
    FROM lives
    WINDOW
        in_existence AS (PARTITION BY log_dir, partition, group_id, topic_id, share_partition, existence ORDER BY offset
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        in_life AS (PARTITION BY log_dir, partition, group_id, topic_id, share_partition, life ORDER BY offset
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        after_it AS (PARTITION BY log_dir, partition, group_id, topic_id, share_partition, life ORDER BY offset
                     ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
"""
"""SQL of a view with one row per readable record of `__share_group_state`. `existence`: the number of tombstones up to the record. `life`:
a number that rises with each tombstone and each initialization of the share partition; an initialization may move the start offset back and
resets the leader epoch (ShareCoordinatorShard). A snapshot without state batches and with leader epoch 0 counts as an initialization.
`previous_*`: the highest value in earlier records of the same existence or life."""

SHARE_RECORDS: Final = f"""
    WITH wide AS (
        SELECT log_dir, partition, offset, first_offset, last_offset, delivery_state, delivery_count,
            {clamped("last_offset")} - {clamped("first_offset")} AS width
        FROM raw_share_states WHERE batch IS NOT NULL AND delivery_state IN (0, 2, 3, 4) AND first_offset >= 0
    ), opened AS (
        SELECT log_dir, partition, offset AS at, delivery_state, delivery_count,
            explode(sequence(first_offset, last_offset)) AS record_offset
        FROM wide WHERE width BETWEEN 0 AND {WIDTH_MAX - 1}
    )
    SELECT *,
        max(delivery_count * 8 + delivery_state) OVER before_it AS previous_rank,
        max(CASE WHEN delivery_state <> 0 THEN delivery_count * 8 + delivery_state END) OVER before_it AS previous_end
    FROM (
        SELECT s.log_dir, s.topic, s.partition, s.file, s.position, s.offset, s.record, s.group_id, s.topic_id, s.share_partition,
            s.existence, s.life, s.start_offset, s.next_snapshot_at, s.next_snapshot_start,
            o.record_offset, o.delivery_state, o.delivery_count, o.delivery_count * 8 + o.delivery_state AS rank
        FROM opened o
        JOIN share_states s ON s.log_dir = o.log_dir AND s.partition = o.partition AND s.offset = o.at
    )
    WINDOW before_it AS (PARTITION BY log_dir, partition, group_id, topic_id, share_partition, life, record_offset ORDER BY offset
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
"""
"""SQL of a view with one row per offset in each state batch of a share partition, with the delivery state that the batch gives to the
record at that offset. `rank` orders the states of a record: a higher delivery count is newer, and with equal counts a higher state
(PersisterStateBatchCombiner). `previous_end`: the highest rank of an earlier state that is final: acknowledged (2), or given up: archived
(4) or on the way to a dead letter queue (3)."""

SHARE_ENDS: Final = """
    SELECT s.log_dir, s.topic, s.partition, s.offset, s.file, s.position, s.group_id, s.topic_id, s.share_partition, s.life,
        greatest(s.start_offset, s.previous_start_offset) AS start_offset, r.last_offset
    FROM share_states s
    LEFT JOIN (SELECT log_dir, partition, group_id, topic_id, share_partition, life, max(record_offset) AS last_offset
               FROM share_records GROUP BY log_dir, partition, group_id, topic_id, share_partition, life) r
        ON r.log_dir = s.log_dir AND r.partition = s.partition AND r.group_id = s.group_id AND r.topic_id = s.topic_id
            AND r.share_partition = s.share_partition AND r.life = s.life
    WHERE s.newest AND s.record <> 'tombstone'
"""
"""SQL of a view with one row per share partition, from its newest record: `start_offset`, and `last_offset`, the last topic record that has
a state."""

SHARE_DELIVERIES: Final = """
    SELECT e.log_dir, e.group_id, e.topic_id, e.share_partition, max(e.start_offset) AS start_offset, max(e.last_offset) AS last_offset,
        count(r.rank) AS records,
        count_if(r.rank % 8 = 2) AS accepted,
        count_if(r.rank % 8 IN (3, 4)) AS archived,
        count_if(r.rank % 8 = 0) AS waiting,
        count_if(r.rank >= 16) AS redelivered,
        coalesce(max(CAST(floor(r.rank / 8) AS BIGINT)), 0) AS deliveries_max
    FROM share_ends e
    LEFT JOIN (SELECT log_dir, partition, group_id, topic_id, share_partition, life, record_offset, max(rank) AS rank
               FROM share_records GROUP BY log_dir, partition, group_id, topic_id, share_partition, life, record_offset) r
        ON r.log_dir = e.log_dir AND r.partition = e.partition AND r.group_id = e.group_id AND r.topic_id = e.topic_id
            AND r.share_partition = e.share_partition AND r.life = e.life
    GROUP BY e.log_dir, e.group_id, e.topic_id, e.share_partition
"""
"""SQL that returns one row per share partition with the counts of `deliveries.ShareDeliveries`: how many records were accepted, archived or
redelivered, as far as the log still contains their states."""

GROUP_RECORDS: Final = """
    WITH lives AS (
        SELECT *,
            sum(CASE WHEN record = 'group' AND deleted THEN 1 ELSE 0 END) OVER (
                PARTITION BY log_dir, partition, group_type, group_id ORDER BY offset ROWS UNBOUNDED PRECEDING) AS life,
            row_number() OVER (
                PARTITION BY log_dir, partition, group_type, group_id, record, member_id ORDER BY offset DESC) = 1 AS latest,
            CASE WHEN record = 'current' THEN lead(base_offset) OVER (
                PARTITION BY log_dir, partition, group_type, group_id, record, member_id ORDER BY offset) END AS replaced_at
        FROM raw_groups WHERE record <> 'unreadable'
    )
    SELECT *,
        max(CASE WHEN record = 'group' THEN epoch END) OVER (
            PARTITION BY log_dir, partition, group_type, group_id, life ORDER BY base_offset) AS group_epoch,
        max(CASE WHEN record = 'group' THEN epoch END) OVER (
            PARTITION BY log_dir, partition, group_type, group_id, life ORDER BY offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS previous_group_epoch
    FROM lives
"""
"""SQL of a view with the readable records of groups and their members in `__consumer_offsets`. `group_epoch`: the group's epoch after the
record's batch took effect; null if compaction removed it. `replaced_at`: the base offset of the batch with the member's next current
assignment. `latest`: the record is the newest with its key."""

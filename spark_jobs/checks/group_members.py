"""Rule `group-members`: the records of consumer, share and streams groups are consistent (owners, epochs, assignments).

One task reads all partitions of `__consumer_offsets` of a directory and evaluates the rule. These partitions are never divided among tasks,
because in a damaged log several of them may hold the same group.
"""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="group-members",
    title="Impossible group state",
    proves="No partition or active task of a consumer or streams group had two owners, and all epochs and assignments fit their group.",
    severity=Severity.VIOLATION,
    evidence=("group_type", "group_id", "member_id", "task", "other_member", "epoch", "group_epoch"),
    advice=(
        "The group coordinator lost records, or a replaced one wrote: two members may have processed the same records, or a member "
        "cannot rejoin. Stop the group's members and start them again."
    ),
    limits=(
        "Judges consumer groups (KIP-848), share groups and streams groups; classic groups have no such records. Compaction keeps the "
        "last record of each key, so old errors may be gone. Partitions with unreadable bytes are judged by their epochs only."
    ),
    sql="""
        WITH whole AS (
            SELECT g.* FROM group_records g
            JOIN logs l ON l.log_dir = g.log_dir AND l.topic = g.topic AND l.partition = g.partition AND l.blind = 0
        ), owned AS (
            SELECT *, coalesce(replaced_at, 9223372036854775807) AS until FROM (
                SELECT *, explode(tasks) AS task FROM whole WHERE record = 'current' AND NOT deleted AND group_type <> 'share'
            )
        ), owners AS (
            SELECT *,
                max(until) OVER before_it AS owned_until,
                last_value(member_id) OVER before_it AS other_member
            FROM owned
            WINDOW before_it AS (PARTITION BY log_dir, partition, group_type, group_id, task ORDER BY offset
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        ), faults AS (
            SELECT 'task of two members' AS kind, log_dir, topic, partition, offset, file, position, group_type, group_id, member_id, task,
                other_member, epoch, group_epoch
            FROM owners WHERE owned_until > base_offset
            UNION ALL
            SELECT 'epoch above that of its group', log_dir, topic, partition, offset, file, position, group_type, group_id, member_id,
                NULL, NULL, epoch, group_epoch
            FROM group_records WHERE record IN ('current', 'target') AND epoch > group_epoch
            UNION ALL
            SELECT 'group epoch went back', log_dir, topic, partition, offset, file, position, group_type, group_id, NULL, NULL, NULL,
                epoch, previous_group_epoch
            FROM group_records WHERE record = 'group' AND epoch < previous_group_epoch
            UNION ALL
            SELECT 'assignment without a member', a.log_dir, a.topic, a.partition, a.offset, a.file, a.position, a.group_type, a.group_id,
                a.member_id, NULL, NULL, a.epoch, a.group_epoch
            FROM whole a
            LEFT JOIN whole m ON m.log_dir = a.log_dir AND m.partition = a.partition AND m.group_type = a.group_type
                AND m.group_id = a.group_id AND m.member_id = a.member_id AND m.record = 'member' AND m.latest AND NOT m.deleted
            WHERE a.record IN ('current', 'target member') AND a.latest AND NOT a.deleted AND m.log_dir IS NULL
            UNION ALL
            SELECT 'member without a group', m.log_dir, m.topic, m.partition, m.offset, m.file, m.position, m.group_type, m.group_id,
                m.member_id, NULL, NULL, NULL, NULL
            FROM whole m
            LEFT JOIN whole g ON g.log_dir = m.log_dir AND g.partition = m.partition AND g.group_type = m.group_type
                AND g.group_id = m.group_id AND g.record = 'group' AND g.latest AND NOT g.deleted
            WHERE m.record = 'member' AND m.latest AND NOT m.deleted AND g.log_dir IS NULL
            UNION ALL
            SELECT 'unreadable record', log_dir, topic, partition, offset, file, position, group_type, NULL, NULL, NULL, NULL, NULL, NULL
            FROM raw_groups WHERE record = 'unreadable'
        )
        SELECT 'violation' AS severity, * FROM faults
    """,
    view="group_records",
    scope=Scope.PARTITION,
)

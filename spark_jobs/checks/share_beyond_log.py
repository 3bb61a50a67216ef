"""Rule `share-beyond-log`: every record for which a share group stores a delivery state exists in the topic's log."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="share-beyond-log",
    title="Share group state beyond the log",
    proves="Every record that a share group was delivered is still before the end of its topic's log.",
    severity=Severity.WARNING,
    evidence=("group_id", "input", "last_offset", "log_end"),
    advice=(
        "On a standalone broker, or if this replica was in the ISR, the log lost records that were delivered. Records written at these "
        "offsets from now on count as delivered already: alter the group's offsets."
    ),
    limits=(
        "A warning: a replica outside the ISR may lag behind the leader, whose records were delivered. Topics are found by the ids in "
        "`partition.metadata`, so logs fetched over the wire are not judged, nor are topics without a batch."
    ),
    sql="""
        SELECT 'warning' AS severity, 'state of records that do not exist' AS kind,
            e.log_dir, e.topic, e.partition, e.offset, e.file, e.position,
            e.group_id, concat(t.topic, '-', CAST(e.share_partition AS STRING)) AS input, e.last_offset, l.last_offset + 1 AS log_end
        FROM share_ends e
        JOIN topic_ids t ON t.log_dir = e.log_dir AND t.topic_id = e.topic_id
        JOIN logs l ON l.log_dir = e.log_dir AND l.topic = t.topic AND l.partition = e.share_partition AND l.blind = 0
        WHERE e.last_offset > l.last_offset OR e.start_offset > l.last_offset + 1
    """,
    view="share_ends",
    scope=Scope.GROUP,
)

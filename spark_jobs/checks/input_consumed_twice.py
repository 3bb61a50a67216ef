"""Rule `input-consumed-twice`: no two committed transactions of a group consumed the same input record."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="input-consumed-twice",
    title="Inputs consumed twice",
    proves="No two committed read-process-write transactions of a group consumed the same input.",
    severity=Severity.VIOLATION,
    evidence=("group_id", "input", "committed_offset", "previous_offset", "previous_at", "producer_id", "previous_producer_id"),
    advice=(
        "Outputs for these inputs were committed twice, unless the application went back on purpose: compare what it wrote "
        "between the two commits."
    ),
    limits=(
        "Sees what the group's offsets say: a committed transaction took the group back behind what a committed transaction before "
        "it had taken, with no reset (a plain commit or a deletion) in between. An application that seeks back on purpose does "
        "consume twice, and is told so. Where the second producer wrote no committed output it is a warning. Compaction of "
        "`__consumer_offsets` removes old commits, and what they would have shown."
    ),
    sql="""
        SELECT CASE WHEN w.producer_id IS NOT NULL THEN 'violation' ELSE 'warning' END AS severity,
            CASE WHEN c.producer_id = c.previous_producer_id THEN 'taken back by the same producer'
                 ELSE 'taken again by another producer' END AS kind,
            c.log_dir, c.topic, c.partition, c.offset, c.file, c.position,
            c.group_id, c.input, c.committed_offset, c.previous_offset, c.previous_at, c.producer_id, c.previous_producer_id
        FROM group_commits c
        LEFT JOIN (
            SELECT DISTINCT log_dir, producer_id FROM transactions
            WHERE outcome = 'commit' AND data_records > 0 AND NOT startswith(topic, '__')
        ) w ON w.log_dir = c.log_dir AND w.producer_id = c.producer_id
        WHERE c.committed_offset < c.previous_offset AND c.transactional AND c.previous_transactional
    """,
    view="group_commits",
    scope=Scope.PRODUCER,
)

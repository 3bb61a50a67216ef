"""Rule `group-offsets`: a group's committed offsets never decrease.

One task reads all partitions of `__consumer_offsets` of a directory and evaluates the rule. These partitions are never divided among tasks,
because in a damaged log several of them may hold the same group.
"""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="group-offsets",
    title="Group offsets go back",
    proves="No group went back behind its committed offsets.",
    severity=Severity.WARNING,
    evidence=("group_id", "input", "committed_offset", "previous_offset", "previous_at"),
    advice="If nobody reset the group on purpose, records were read twice: look at what its members did at that time.",
    limits=(
        "A warning: an operator or the application may have reset the offset on purpose, and without transactions reading twice "
        "is at-least-once's right. A deleted offset (a tombstone) may be followed by any. Compaction keeps the last commits only, "
        "so old ones may be gone. Commits in transactions are rule `input-consumed-twice`'s."
    ),
    sql="""
        SELECT 'warning' AS severity, 'offset went back' AS kind,
            log_dir, topic, partition, offset, file, position,
            group_id, input, committed_offset, previous_offset, previous_at
        FROM group_commits
        WHERE committed_offset < previous_offset AND NOT transactional
    """,
    view="group_commits",
    scope=Scope.PARTITION,
)

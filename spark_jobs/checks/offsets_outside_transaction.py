"""Rule `offsets-outside-transaction`: a group that commits offsets in transactions does not also commit them outside of transactions."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="offsets-outside-transaction",
    title="Offsets committed outside transactions",
    proves="Outputs and the offsets of their inputs were committed together, or not at all.",
    severity=Severity.WARNING,
    evidence=("group_id", "input", "committed_offset", "previous_offset", "previous_at", "previous_producer_id"),
    advice=(
        "Records between the two offsets were read, and no transaction holds their outputs: look for a consumer of this group "
        "that commits by itself."
    ),
    limits=(
        "A plain commit that goes forward from one made in a transaction: what lies between was read, and no transaction says that "
        "its output was written. A warning, for an operator may have skipped records on purpose. Which group belongs to which output is "
        "known only from the transactions that hold its offsets: a group that never commits in one is not judged."
    ),
    sql="""
        SELECT 'warning' AS severity, 'moved on outside a transaction' AS kind,
            log_dir, topic, partition, offset, file, position,
            group_id, input, committed_offset, previous_offset, previous_at, previous_producer_id
        FROM group_commits
        WHERE NOT transactional AND previous_transactional AND committed_offset > previous_offset
    """,
    view="group_commits",
    scope=Scope.PARTITION,
)

"""Rule `hanging-transaction`: every transaction in a partition has a marker, or its coordinator will still end it."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="hanging-transaction",
    title="Hanging transactions",
    proves="No read_committed consumer is blocked forever: every transaction has a marker, or a coordinator that will write one.",
    severity=Severity.VIOLATION,
    evidence=("producer_id", "producer_epoch", "last_stable_offset", "age_ms", "transactional_id", "coordinator", "timeout_ms"),
    advice=(
        "Readers of committed data wait at the last stable offset. Find out whether the producer still lives; if not, end its "
        "transaction (`kafka-transactions.sh abort` with the offset of the finding)."
    ),
    limits=(
        "Open is told as info while `__transaction_state` says ongoing (or markers to be written) within the transaction's timeout and a "
        "minute (coordinators look for what timed out every ten seconds), by the "
        "newest time that a broker wrote into the directory. Where `__transaction_state` is not there, or not all of its partitions are, "
        "open for longer than transaction.max.timeout.ms is a violation; it began, as far as one can tell, at the time of its first batch, "
        "or at the newest time that a broker wrote before that batch. Behind unreadable bytes, which may have been the marker, it is a "
        "warning. Judge a stopped broker's directory or a snapshot: of a running one, files are read one after another, and a transaction "
        "may end between."
    ),
    sql="""
        SELECT
            CASE WHEN kind IN ('open', 'markers being written') THEN 'info'
                 WHEN kind = 'marker not readable' THEN 'warning' ELSE 'violation' END AS severity,
            kind, log_dir, topic, partition, first_offset AS offset, file, position,
            producer_id, data_epoch AS producer_epoch, last_stable_offset, age_ms, transactional_id, state AS coordinator, timeout_ms
        FROM (
            SELECT *,
                CASE WHEN blind THEN 'marker not readable'
                     WHEN after_newer_epoch OR newest_epoch > data_epoch THEN 'orphan: a newer epoch wrote'
                     WHEN state LIKE 'Prepare%' AND listed
                     THEN CASE WHEN state_age_ms - 60000 > timeout_ms THEN 'decided, markers overdue' ELSE 'markers being written' END
                     WHEN state = 'Ongoing' AND listed AND state_epoch = data_epoch
                     THEN CASE WHEN state_age_ms - 60000 > timeout_ms THEN 'over its timeout' ELSE 'open' END
                     WHEN state IS NOT NULL OR states_known THEN 'orphan: unknown to its coordinator'
                     WHEN age_ms > :transaction_timeout_ms THEN 'no marker' ELSE 'open' END AS kind
            FROM open_transactions
        )
    """,
    view="transactions",
    needs_transactions=True,
    scope=Scope.PRODUCER,
)

"""Rule `sequence-gap`: a producer's sequences in one epoch have no holes."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="sequence-gap",
    title="Sequence gaps",
    proves="No batch of an idempotent producer is missing before one that is stored.",
    severity=Severity.VIOLATION,
    evidence=("producer_id", "producer_epoch", "base_sequence", "expected_sequence", "missing", "after_offset"),
    advice=(
        "Ask the producer what it sent as the missing sequences: they may have been acknowledged. Look for a truncation or an "
        "unclean election between the two offsets."
    ),
    limits=(
        "The first batch of a producer in the log may start anywhere: the head may be deleted, and a broker accepts any sequence "
        "of a producer it does not know. "
        "A gap is legal in a compacted partition when the offsets missing between the two batches can have held the missing records. "
        "No gap is seen behind a batch that was written again, which rule `duplicate-sequence` reports. "
        "Gaps across unreadable bytes are not judged (rule `crc` reports those), nor what was lost behind a producer's last batch."
    ),
    sql="""
        SELECT
            'violation' AS severity, 'sequence gap' AS kind,
            log_dir, topic, partition, base_offset AS offset, file, position,
            producer_id, producer_epoch, base_sequence,
            CAST((max_sequence_before + 1) % 2147483648 AS INT) AS expected_sequence,
            sequence - max_sequence_before - 1 AS missing,
            predecessor.base_offset AS after_offset
        FROM sequences
        LEFT ANTI JOIN late_retries
            ON late_retries.log_dir = sequences.log_dir AND late_retries.file = sequences.predecessor.file
            AND late_retries.position = sequences.predecessor.position
        WHERE sequence > max_sequence_before + 1
          AND blind_before = predecessor.blind_before
          AND abs(holes_before - predecessor.holes_before) < sequence - max_sequence_before - 1
    """,
    view="sequences",
    scope=Scope.PARTITION,
)

"""Rule `duplicate-sequence`: no sequence number of a producer's epoch occurs twice in a partition."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="duplicate-sequence",
    title="Duplicate sequences",
    proves="No batch of an idempotent producer was appended twice: a retry of a stored batch left no second copy.",
    severity=Severity.VIOLATION,
    evidence=("producer_id", "producer_epoch", "base_sequence", "last_sequence", "record_count", "first_offset"),
    advice=(
        "Consumers get these records twice. `ottla dedup` writes each sequence once; look at what the broker did between the "
        "two copies (a restart, a new leader)."
    ),
    limits=(
        "Sees what carries a producer id: duplicates of plain producers, or of a producer that restarted under a new id, are rule"
        " `business-key`'s. "
        "Sequences are compared within one epoch, and anew after a silence longer than producer.id.expiration.ms, when a broker "
        "forgets the producer: from then on only a batch with the same bytes counts, and append times change the bytes."
    ),
    sql="""
        SELECT
            'violation' AS severity,
            CASE WHEN base_sequence = predecessor.base_sequence AND last_sequence = predecessor.last_sequence
                 THEN 'same batch twice' ELSE 'sequences overlap' END AS kind,
            log_dir, topic, partition,
            greatest(base_offset, predecessor.base_offset) AS offset,
            CASE WHEN base_offset >= predecessor.base_offset THEN file ELSE predecessor.file END AS file,
            CASE WHEN base_offset >= predecessor.base_offset THEN position ELSE predecessor.position END AS position,
            producer_id, producer_epoch,
            CASE WHEN base_offset >= predecessor.base_offset THEN base_sequence ELSE predecessor.base_sequence END AS base_sequence,
            CASE WHEN base_offset >= predecessor.base_offset THEN last_sequence ELSE predecessor.last_sequence END AS last_sequence,
            CASE WHEN base_offset >= predecessor.base_offset THEN record_count ELSE predecessor.record_count END AS record_count,
            least(base_offset, predecessor.base_offset) AS first_offset
        FROM sequences
        WHERE sequence <= max_sequence_before
        UNION ALL
        SELECT 'violation', 'same batch twice', s.log_dir, s.topic, s.partition, s.base_offset, s.file, s.position,
            s.producer_id, s.producer_epoch, s.base_sequence, s.last_sequence, s.record_count, r.first_offset
        FROM sequences s
        JOIN late_retries r ON r.log_dir = s.log_dir AND r.file = s.file AND r.position = s.position
        WHERE r.session > r.prev_session
    """,
    view="sequences",
    scope=Scope.PARTITION,
)

"""The costs of transactions: aborted bytes, which no read_committed consumer receives, the transactions' durations, and how far they held
back the last stable offset.

These are figures, not findings: a log with expensive transactions can be correct.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.spark_jobs.views import clamped

COST_SIZES: Final = """
    SELECT p.log_dir, p.topic,
        sum(p.size_bytes) AS transactional_bytes,
        coalesce(sum(p.size_bytes) FILTER (WHERE t.outcome = 'abort'), 0) AS aborted_bytes
    FROM producer_batches p
    JOIN transactions t ON t.log_dir = p.log_dir AND t.topic = p.topic AND t.partition = p.partition
        AND t.producer_id = p.producer_id AND t.ordinal = p.ordinal
    WHERE p.transactional AND NOT p.control
    GROUP BY p.log_dir, p.topic
"""
COST_SPANS: Final = f"""
    SELECT t.log_dir, t.topic, t.outcome,
        {clamped("coalesce(t.marker_offset, e.last_offset)")} - {clamped("t.first_offset")} AS lag_records,
        t.marker_timestamp - t.first_timestamp AS length_ms
    FROM transactions t
    JOIN (SELECT log_dir, topic, partition, max(last_offset) AS last_offset FROM batches GROUP BY log_dir, topic, partition) e
        ON e.log_dir = t.log_dir AND e.topic = t.topic AND e.partition = t.partition
    WHERE t.data_batches > 0
"""
"""SQL of the views `cost_sizes` (one row per topic with its transactional bytes) and `cost_spans` (one row per transaction and partition).
"""

COSTS: Final = """
    WITH lengths AS (
        SELECT log_dir, topic,
            count_if(outcome = 'commit') AS committed,
            count_if(outcome = 'abort') AS aborted,
            count_if(outcome IS NULL) AS open,
            CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY length_ms) AS BIGINT) AS length_ms_p50,
            CAST(percentile_disc(0.99) WITHIN GROUP (ORDER BY length_ms) AS BIGINT) AS length_ms_p99,
            max(length_ms) AS length_ms_max,
            CAST(percentile_disc(0.99) WITHIN GROUP (ORDER BY lag_records) AS BIGINT) AS lag_records_p99,
            max(lag_records) AS lag_records_max
        FROM cost_spans GROUP BY log_dir, topic
    ), sizes AS (
        SELECT log_dir, topic, sum(transactional_bytes) AS transactional_bytes, sum(aborted_bytes) AS aborted_bytes
        FROM cost_sizes GROUP BY log_dir, topic
    ), topics AS (
        SELECT log_dir, topic, sum(size_bytes) AS size_bytes FROM logs WHERE NOT startswith(topic, '__') GROUP BY log_dir, topic
    )
    SELECT l.log_dir, l.topic, b.size_bytes, coalesce(s.transactional_bytes, 0) AS transactional_bytes,
        coalesce(s.aborted_bytes, 0) AS aborted_bytes, l.committed, l.aborted, l.open,
        l.length_ms_p50, l.length_ms_p99, l.length_ms_max, l.lag_records_p99, l.lag_records_max
    FROM lengths l
    JOIN topics b ON b.log_dir = l.log_dir AND b.topic = l.topic
    LEFT JOIN sizes s ON s.log_dir = l.log_dir AND s.topic = l.topic
    ORDER BY l.log_dir, l.topic
"""


@dataclass(frozen=True, slots=True)
class TopicCosts:
    """The costs of one topic's transactions; a transaction counts once in each of its partitions. `length_ms_*`: the time from a
    transaction's first batch to its marker, in ms (None: none has ended). `lag_records_*`: by how many offsets a transaction held back the
    last stable offset behind the log's end: when it ended, or at the end of the log if it is open."""

    topic: str
    size_bytes: int
    transactional_bytes: int
    aborted_bytes: int
    committed: int
    aborted: int
    open: int
    length_ms_p50: int | None
    length_ms_p99: int | None
    length_ms_max: int | None
    lag_records_p99: int
    lag_records_max: int

    @property
    def aborted_share(self) -> float:
        """The fraction of the topic's bytes that belongs to aborted transactions, 0 to 1."""
        return self.aborted_bytes / self.size_bytes if self.size_bytes else 0.0

"""Rule `suspected-replay`: no consecutive records look like a second copy of earlier ones, sent by a producer that did not know that the
first copy had arrived.

One task compares the records of a partition. If the partition is too large for one task, several tasks read it and pass on one row per
record, with a hash of its content.
"""

from ottla.spark_jobs.checks.rule import Needs, Rule, Scope, Severity

RULE = Rule(
    name="suspected-replay",
    title="Suspected replays",
    proves="No run of records was written again under a new epoch, a new producer id or none, which sequence numbers cannot detect.",
    severity=Severity.WARNING,
    evidence=(
        "confidence",
        "records",
        "same_timestamps",
        "ms_between",
        "producer_id",
        "producer_epoch",
        "first_producer_id",
        "first_epoch",
        "first_offset",
    ),
    advice="Compare the records by hand; if they are one event, give events an id of their own, and judge by it (--key-field).",
    limits=(
        "A suspicion, never a violation: equal keys and values can be honest. High confidence, a warning, is a run of two records or more "
        "with the same times: a batch sent twice keeps them. Medium is one such record or a run of five or more with other times; low a "
        "shorter run; both are infos. Looks within one partition, at records that readers of committed data see, between producers that "
        "wrote within ten minutes of each other, and only at contents that are there four times at most: constant payloads prove nothing. "
        "Without a producer id only records with the same times are compared. If the records' bytes differ (a counter, a time inside) "
        "nothing is seen: name the field that counts with rule `business-key`."
    ),
    sql="""
        WITH ranked AS (
            SELECT *,
                row_number() OVER (PARTITION BY log_dir, topic, partition, producer_id, producer_epoch ORDER BY offset) AS rank,
                count(*) OVER (PARTITION BY log_dir, topic, partition, content) AS copies
            FROM visible_records
        ), paired AS (
            SELECT *,
                lag(offset) OVER alike AS first_offset,
                lag(timestamp) OVER alike AS first_timestamp,
                lag(producer_id) OVER alike AS first_producer_id,
                lag(producer_epoch) OVER alike AS first_epoch,
                lag(rank) OVER alike AS first_rank
            FROM ranked
            WHERE copies BETWEEN 2 AND 4
            WINDOW alike AS (PARTITION BY log_dir, topic, partition, content ORDER BY offset)
        ), runs AS (
            SELECT log_dir, topic, partition, producer_id, producer_epoch, first_producer_id, first_epoch,
                count(*) AS records,
                count_if(timestamp = first_timestamp) AS same_timestamps,
                max(timestamp - first_timestamp) AS ms_between,
                min(offset) AS offset,
                min(first_offset) AS first_offset,
                min_by(file, offset) AS file,
                min_by(position, offset) AS position
            FROM paired
            WHERE (producer_id <> first_producer_id OR producer_epoch <> first_epoch) AND abs(timestamp - first_timestamp) <= :replay_ms
               OR producer_id < 0 AND first_producer_id < 0 AND timestamp = first_timestamp
            GROUP BY log_dir, topic, partition, producer_id, producer_epoch, first_producer_id, first_epoch, rank - first_rank
        ), judged AS (
            SELECT *,
                CASE WHEN same_timestamps = records AND records >= 2 THEN 'high'
                     WHEN same_timestamps = records OR records >= 5 THEN 'medium'
                     WHEN records >= 2 THEN 'low' END AS confidence
            FROM runs
        )
        SELECT CASE confidence WHEN 'high' THEN 'warning' ELSE 'info' END AS severity,
            CASE WHEN producer_id < 0 AND first_producer_id < 0 THEN 'sent again without a producer id'
                 WHEN producer_id = first_producer_id THEN 'sent again in another epoch'
                 ELSE 'sent again by another producer id' END AS kind,
            log_dir, topic, partition, offset, file, position,
            confidence, records, same_timestamps, ms_between, producer_id, producer_epoch, first_producer_id, first_epoch, first_offset
        FROM judged
        WHERE confidence IS NOT NULL
    """,
    view="visible_records",
    needs=Needs.DEEP,
    scope=Scope.PARTITION,
)

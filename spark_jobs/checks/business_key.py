"""Rule `business-key`: no two visible records of a topic have the same business key (a field or header, such as an order number, that is
unique by intent).

With Spark, one row per record is shuffled by the business key, so that one task compares all records with the same key. Several tasks read
a large partition and extract the keys.
"""

from ottla.spark_jobs.checks.rule import Needs, Rule, Scope, Severity

RULE = Rule(
    name="business-key",
    title="Duplicate business keys",
    proves="Every business key is in the topic once: no duplicate that the protocol cannot detect.",
    severity=Severity.VIOLATION,
    evidence=(
        "business_key",
        "copy",
        "first_partition",
        "first_offset",
        "writer",
        "producer_id",
        "producer_epoch",
        "first_producer_id",
        "first_producer_epoch",
    ),
    advice="`ottla dedup --key-field` writes the first of each; consumers that cannot bear a second copy need a store that refuses it.",
    limits=(
        "Needs a field of the value, a header or the record's key (--key-field) that is unique by intent. Records that lack it, or whose "
        "value is not JSON, are not judged. Internal topics are left out, "
        "and records of transactions that the log shows aborted are not visible to a reader of committed data and do not count."
    ),
    sql="""
        SELECT
            'violation' AS severity, 'key seen before' AS kind,
            log_dir, topic, partition, offset, file, position,
            business_key, copy, first_partition, first_offset,
            CASE WHEN producer_id < 0 THEN 'a producer without an id'
                 WHEN producer_id <> first_producer_id THEN 'another producer id'
                 WHEN producer_epoch <> first_producer_epoch THEN 'another epoch of the same producer'
                 ELSE 'the same producer' END AS writer,
            producer_id, producer_epoch, first_producer_id, first_producer_epoch
        FROM (
            SELECT *,
                row_number() OVER w AS copy,
                first_value(partition) OVER w AS first_partition,
                first_value(offset) OVER w AS first_offset,
                first_value(producer_id) OVER w AS first_producer_id,
                first_value(producer_epoch) OVER w AS first_producer_epoch
            FROM visible_records
            WHERE business_key IS NOT NULL
            WINDOW w AS (PARTITION BY key_hash, log_dir, topic, business_key ORDER BY timestamp, partition, offset)
        )
        WHERE copy > 1
    """,
    view="visible_records",
    needs=Needs.KEY,
    scope=Scope.KEY,
)

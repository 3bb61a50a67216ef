"""Rule `crc`: every byte of the log belongs to a batch with a correct CRC."""

from ottla.spark_jobs.checks.rule import Rule, Scope, Severity

RULE = Rule(
    name="crc",
    title="Corrupt batches",
    proves="Each batch has the bytes that were written, from the attributes to its end, and there are no other bytes between batches.",
    severity=Severity.VIOLATION,
    evidence=("size_bytes", "detail"),
    advice=(
        "Consumers fail here. Restore the partition from a replica that has no finding here; a torn tail the broker removes by "
        "itself when it starts."
    ),
    limits=(
        "Messages of the formats before v2 are checked from their magic on. "
        "Base offset, length and leader epoch lie outside Kafka's CRC: rule `offsets` watches the first, the splitting of the "
        "file the second. "
        "A batch cut short, or zero bytes, at the very end of a partition's last segment "
        "is what a killed or running broker "
        "leaves, and what its recovery removes: told as info, or as a warning if the broker says that it stopped cleanly. Over the wire, "
        "offsets that a broker does not give are no batch; those that retention removed meanwhile are told as info."
    ),
    sql="""
        SELECT
            CASE WHEN NOT coalesce(torn, false) THEN 'violation' WHEN clean_shutdown THEN 'warning' ELSE 'info' END AS severity,
            CASE WHEN error IS NULL THEN 'wrong CRC' WHEN torn AND size_bytes = 0 THEN 'removed while reading'
                 WHEN torn THEN 'torn tail' ELSE 'no batch' END AS kind,
            log_dir, topic, partition, base_offset AS offset, file, position,
            size_bytes,
            coalesce(error, 'the stored checksum is not that of the bytes') AS detail
        FROM raw_batches
        WHERE error IS NOT NULL OR NOT crc_ok
    """,
    view="raw_batches",
    scope=Scope.PARTITION,
)

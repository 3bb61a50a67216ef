"""The configuration keys of a topic (Kafka's `TopicConfig`), with the broker settings that provide their defaults.

Every key can be set on a topic and is returned by DescribeConfigs. The keys of tiered storage are stored without effect, because tools
set them. Tiered storage itself cannot be enabled, as on a Kafka broker with remote.log.storage.system.enable=false.
"""

from __future__ import annotations

import re

from ottla.broker.core.config_keys import (
    INT32_MAX,
    INT64_MAX,
    ConfigKey,
    ConfigType,
    Synonym,
    Validator,
    Value,
    at_least,
    between,
    each_of,
    exactly,
    one_of,
    validator,
)

_HOURS = 3_600_000
_MINUTES = 60_000

POLICIES = each_of("compact", "delete")
CODECS = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = one_of("CreateTime", "LogAppendTime")
GZIP_LEVELS = validator(
    lambda value: isinstance(value, int) and (1 <= value <= 9 or value == -1), "Value must be between 1 and 9 or equal to -1"
)
LZ4_LEVELS = between(1, 17)
ZSTD_LEVELS = between(-131072, 22)
SEGMENT_BYTES = at_least(1024 * 1024)
DECOMPRESSED_MAX = INT32_MAX - 8
"""The default and maximum of max.decompressed.message.bytes: the longest array of a JVM (Kafka: ByteUtils)."""
DECOMPRESSED_BYTES = between(1, DECOMPRESSED_MAX)
_OFF = exactly(False)


def _is_throttle(value: Value) -> bool:
    return isinstance(value, tuple) and (value == ("*",) or all(re.fullmatch("([0-9]+:[0-9]+)?", item) for item in value))


_THROTTLED = validator(
    _is_throttle,
    "must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
)


def _key(
    name: str,
    kind: ConfigType,
    default: Value,
    doc: str,
    validator: Validator | None = None,
    *synonyms: str | Synonym,
    has_effect: bool = True,
) -> ConfigKey:
    chain = tuple(Synonym(synonym) if isinstance(synonym, str) else synonym for synonym in synonyms)
    repeats = validator is _THROTTLED
    return ConfigKey(name, kind, default, doc, validator, dynamic=True, synonyms=chain, has_effect=has_effect, repeats=repeats)


_T = ConfigType
_KEYS = (
    _key("cleanup.policy", _T.LIST, ("delete",), "What happens to old records: delete, compact, or both.", POLICIES, "log.cleanup.policy"),
    _key(
        "compression.type",
        _T.STRING,
        "producer",
        "The codec in which batches are stored; producer keeps the client's codec.",
        CODECS,
        "compression.type",
    ),
    _key("compression.gzip.level", _T.INT, -1, "Compression level if the topic's codec is gzip.", GZIP_LEVELS, "compression.gzip.level"),
    _key("compression.lz4.level", _T.INT, 9, "Compression level if the topic's codec is lz4.", LZ4_LEVELS, "compression.lz4.level"),
    _key("compression.zstd.level", _T.INT, 3, "Compression level if the topic's codec is zstd.", ZSTD_LEVELS, "compression.zstd.level"),
    _key(
        "delete.retention.ms",
        _T.LONG,
        86_400_000,
        "How long a compacted topic keeps tombstones.",
        at_least(0),
        "log.cleaner.delete.retention.ms",
    ),
    _key(
        "file.delete.delay.ms",
        _T.LONG,
        60_000,
        "How long a deleted segment's files stay on disk.",
        at_least(0),
        "log.segment.delete.delay.ms",
    ),
    _key(
        "flush.messages",
        _T.LONG,
        INT64_MAX,
        "Number of records after which the log is synced before the write is acknowledged.",
        at_least(1),
        "log.flush.interval.messages",
    ),
    _key("flush.ms", _T.LONG, INT64_MAX, "Time after which the log is synced.", at_least(0), "log.flush.interval.ms"),
    _key("follower.replication.throttled.replicas", _T.LIST, (), "Replicas whose fetches are throttled.", _THROTTLED),
    _key(
        "leader.replication.throttled.replicas",
        _T.LIST,
        (),
        "Replicas to which leaders send at a throttled rate.",
        _THROTTLED,
    ),
    _key(
        "index.interval.bytes",
        _T.INT,
        4096,
        "Bytes of log between two entries of the offset index.",
        at_least(0),
        "log.index.interval.bytes",
    ),
    _key(
        "errors.deadletterqueue.group.enable",
        _T.BOOLEAN,
        False,
        "Whether share groups may use the topic as a dead letter queue.",
    ),
    _key(
        "local.retention.bytes",
        _T.LONG,
        -2,
        "Tiered storage only. Stored, without effect.",
        at_least(-2),
        "log.local.retention.bytes",
        has_effect=False,
    ),
    _key(
        "local.retention.ms",
        _T.LONG,
        -2,
        "Tiered storage only. Stored, without effect.",
        at_least(-2),
        "log.local.retention.ms",
        has_effect=False,
    ),
    _key(
        "max.compaction.lag.ms",
        _T.LONG,
        INT64_MAX,
        "Time after which a record must be compacted.",
        at_least(1),
        "log.cleaner.max.compaction.lag.ms",
    ),
    _key(
        "max.decompressed.message.bytes",
        _T.INT,
        DECOMPRESSED_MAX,
        "The largest record of a compressed batch, decompressed.",
        DECOMPRESSED_BYTES,
        "max.decompressed.message.bytes",
    ),
    _key(
        "max.message.bytes", _T.INT, 1_048_588, "The largest record batch, as compressed by the client.", at_least(0), "message.max.bytes"
    ),
    _key(
        "message.timestamp.type",
        _T.STRING,
        "CreateTime",
        "Whether records keep the client's timestamp or get the broker's.",
        TIMESTAMP_TYPES,
        "log.message.timestamp.type",
    ),
    _key(
        "message.timestamp.before.max.ms",
        _T.LONG,
        INT64_MAX,
        "How far behind the broker's clock a timestamp may be.",
        at_least(0),
        "log.message.timestamp.before.max.ms",
    ),
    _key(
        "message.timestamp.after.max.ms",
        _T.LONG,
        3_600_000,
        "How far ahead of the broker's clock a timestamp may be.",
        at_least(0),
        "log.message.timestamp.after.max.ms",
    ),
    _key(
        "min.cleanable.dirty.ratio",
        _T.DOUBLE,
        0.5,
        "Share of a log that must be dirty to be compacted.",
        between(0, 1),
        "log.cleaner.min.cleanable.ratio",
    ),
    _key(
        "min.compaction.lag.ms", _T.LONG, 0, "Time for which a record is never compacted.", at_least(0), "log.cleaner.min.compaction.lag.ms"
    ),
    _key("min.insync.replicas", _T.INT, 1, "In-sync replicas that a write with acks=all needs.", at_least(1), "min.insync.replicas"),
    _key(
        "preallocate",
        _T.BOOLEAN,
        False,
        "Whether a segment's file is allocated when it is created. Stored, without effect.",
        None,
        "log.preallocate",
        has_effect=False,
    ),
    _key("remote.storage.enable", _T.BOOLEAN, False, "Tiered storage is not supported: only false is allowed.", _OFF),
    _key(
        "remote.copy.lag.bytes",
        _T.LONG,
        -1,
        "Tiered storage only. Stored, without effect.",
        at_least(-1),
        "log.remote.copy.lag.bytes",
        has_effect=False,
    ),
    _key(
        "remote.copy.lag.ms",
        _T.LONG,
        0,
        "Tiered storage only. Stored, without effect.",
        at_least(-1),
        "log.remote.copy.lag.ms",
        has_effect=False,
    ),
    _key("remote.log.copy.disable", _T.BOOLEAN, False, "Tiered storage only. Stored, without effect.", has_effect=False),
    _key("remote.log.delete.on.disable", _T.BOOLEAN, False, "Tiered storage only. Stored, without effect.", has_effect=False),
    _key(
        "retention.bytes",
        _T.LONG,
        -1,
        "Size above which a partition's oldest segments are deleted; a negative number is no limit.",
        None,
        "log.retention.bytes",
    ),
    _key(
        "retention.ms",
        _T.LONG,
        604_800_000,
        "Age at which segments are deleted; -1 is no limit.",
        at_least(-1),
        "log.retention.ms",
        Synonym("log.retention.minutes", _MINUTES),
        Synonym("log.retention.hours", _HOURS),
    ),
    _key("segment.bytes", _T.INT, 1_073_741_824, "Size of a segment file.", SEGMENT_BYTES, "log.segment.bytes"),
    _key(
        "internal.segment.bytes",
        _T.INT,
        None,
        "Size of a segment file below segment.bytes' minimum; for tests.",
        at_least(1),
        "internal.segment.bytes",
    ),
    _key("segment.index.bytes", _T.INT, 10_485_760, "Size of a segment's index files.", at_least(4), "log.index.size.max.bytes"),
    _key(
        "segment.jitter.ms",
        _T.LONG,
        0,
        "Longest random time subtracted from segment.ms.",
        at_least(0),
        "log.roll.jitter.ms",
        Synonym("log.roll.jitter.hours", _HOURS),
    ),
    _key(
        "segment.ms",
        _T.LONG,
        604_800_000,
        "Time after which a segment is closed.",
        at_least(1),
        "log.roll.ms",
        Synonym("log.roll.hours", _HOURS),
    ),
    _key(
        "unclean.leader.election.enable",
        _T.BOOLEAN,
        False,
        "Whether a replica outside the ISR may become leader.",
        None,
        "unclean.leader.election.enable",
    ),
)

TOPIC_KEYS: dict[str, ConfigKey] = {key.name: key for key in _KEYS}

_OLDER = "Of releases before 4.0. Stored, without effect."
OLDER_TOPIC_KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        _key("message.downconversion.enable", _T.BOOLEAN, None, _OLDER, has_effect=False),
        _key("message.format.version", _T.STRING, None, _OLDER, has_effect=False),
        _key("message.timestamp.difference.max.ms", _T.LONG, None, _OLDER, at_least(0), has_effect=False),
    )
}
"""Topic settings that Kafka removed in 4.0, for a broker that imitates an older release. Their defaults are in that release's table."""

assert all(key.default is None or key.type is not _T.INT or (isinstance(key.default, int) and key.default <= INT32_MAX) for key in _KEYS)

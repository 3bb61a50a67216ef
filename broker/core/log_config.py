"""The typed configuration of one partition's log.

`ottla.broker.configs.topic_config` makes a `LogConfig` from a topic's overrides and the broker's settings; `ottla.broker.storage` gets all
settings of a log in it. It is immutable: a configuration change replaces the object, so every decision uses a consistent set of values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

INT64_MAX: Final = 2**63 - 1

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"

POLICY_DELETE: Final = "delete"
POLICY_COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """A topic's configuration, which all logs of the topic's partitions share. The attributes have Kafka's names with `.` written `_`.
    Times are in milliseconds, sizes in bytes; -1 disables a retention limit.
    """

    cleanup_policy: frozenset[str] = frozenset({POLICY_DELETE})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = INT64_MAX
    max_decompressed_message_bytes: int = 2**31 - 9
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_type: str = CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    accepts_append_time: bool = True
    """Whether a topic with CreateTime accepts a client's batch whose timestamp type is LogAppendTime, and ignores that type; otherwise the
    batch is rejected. This is not a setting: it depends on the Kafka release that the broker imitates."""
    # The following fields are computed once from the ones above, because every append reads them:
    compacts: bool = field(init=False, repr=False, compare=False)
    """Whether the log is compacted: cleanup.policy contains `compact`. Every record must then have a key."""
    max_segment_ms: int = field(init=False, repr=False, compare=False)
    """The age, in ms, at which the active segment is rolled: segment.ms, or max.compaction.lag.ms if the log is compacted and that is
    shorter, because the active segment is not compacted (KIP-354, Kafka's LogConfig.maxSegmentMs)."""
    log_append_time: bool = field(init=False, repr=False, compare=False)
    """Whether the broker replaces each batch's timestamp by the time of the append: message.timestamp.type is LogAppendTime."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "compacts", POLICY_COMPACT in self.cleanup_policy)
        lag_ms = self.max_compaction_lag_ms if self.compacts and self.max_compaction_lag_ms > 0 else INT64_MAX
        object.__setattr__(self, "max_segment_ms", min(lag_ms, self.segment_ms))
        object.__setattr__(self, "log_append_time", self.message_timestamp_type == LOG_APPEND_TIME)

    @property
    def deletes(self) -> bool:
        """Whether retention by size and time applies: cleanup.policy contains `delete`."""
        return POLICY_DELETE in self.cleanup_policy

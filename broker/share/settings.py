"""The settings of one share group that its share partitions use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.broker.share.in_flight import RecordState

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration"


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """The group's effective settings: its own configs, otherwise the broker's (KAFKA ShareGroupConfigProvider)."""

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    partition_max_record_locks: int = 2_000
    auto_offset_reset: str = LATEST
    """Where a new group starts: `EARLIEST`, `LATEST` or `BY_DURATION`, which is `reset_duration_ms` ago."""
    reset_duration_ms: int = 0
    read_committed: bool = False
    renew_acknowledge_enable: bool = True
    dead_letter_topic: str = ""
    """The dead letter queue (KIP-1191): the topic to which the broker writes records that were rejected or delivered too often. Empty if
    the group has none, or share.version does not allow it."""
    copies_dead_letters: bool = False
    """Whether dead letters have the key and the value of their records."""

    @property
    def undeliverable_state(self) -> RecordState:
        """The delivery state of a record that was rejected or delivered too often: ARCHIVING if the group has a dead letter queue,
        otherwise ARCHIVED."""
        return RecordState.ARCHIVING if self.dead_letter_topic else RecordState.ARCHIVED

    @property
    def throttle_from(self) -> int:
        """The delivery count from which fewer records are delivered together. A record that crashes the members is then archived without
        the records that are delivered with it."""
        return max(2, -(-self.delivery_count_limit // 2))

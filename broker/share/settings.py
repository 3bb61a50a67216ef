"""The settings of a share group that affect the delivery of records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.broker.share.in_flight import RecordState

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration"


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """The effective settings of a share group: the group's own configs and, for those that are not set, the broker's (Kafka's
    ShareGroupConfigProvider)."""

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    partition_max_record_locks: int = 2_000
    auto_offset_reset: str = LATEST
    """Where a new group starts: at the earliest offset (`EARLIEST`), at the latest (`LATEST`), or at the time that was `reset_duration_ms`
    ago (`BY_DURATION`)."""
    reset_duration_ms: int = 0
    read_committed: bool = False
    renew_acknowledge_enable: bool = True
    dead_letter_topic: str = ""
    """The topic that is the group's dead letter queue (KIP-1191): the broker writes records there that were rejected or delivered too
    often. Empty if the group has no queue, or if the feature share.version does not allow one."""
    copies_dead_letters: bool = False
    """Whether dead letters (records in the dead letter queue) get the key and the value of the original records."""

    @property
    def undeliverable_state(self) -> RecordState:
        """The delivery state of a record that was rejected or delivered too often: ARCHIVING if the group has a dead letter queue,
        otherwise ARCHIVED."""
        return RecordState.ARCHIVING if self.dead_letter_topic else RecordState.ARCHIVED

    @property
    def throttle_from(self) -> int:
        """The delivery count from which a record is delivered together with fewer others. Because of it, a record that crashes the members
        is finally delivered alone, and no other records are archived with it."""
        return max(2, -(-self.delivery_count_limit // 2))

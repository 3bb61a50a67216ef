"""The committed offsets of groups, and the pending offsets of open transactions.

Invariants:

* An offset of an open transaction is pending until the transaction ends: a fetch does not return it, and a fetch that requires stable
  offsets gets UNSTABLE_OFFSET_COMMIT for its partition.
* When the transaction commits, the pending offset replaces the committed one only if its record is later in the log (Kafka's
  OffsetMetadataManager.replayEndTransactionMarker).
* A tombstone removes the committed and every pending offset of its partition.

Everything changes only by records (`put`, `remove`, `end_transaction`), so loading the log restores the same state.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.protocol.offset_log import NO_EXPIRY, OffsetCommitValue
from ottla.protocol.schema import ZERO_UUID

NO_PRODUCER_ID = -1


class Committed(NamedTuple):
    """A committed offset, and the offset of its record in the log of `__consumer_offsets`."""

    value: OffsetCommitValue
    record_offset: int


ByPartition = dict[str, dict[int, Committed]]


class OffsetTable:
    """Committed or pending offsets, by group, topic and partition. A group or topic without offsets has no entry."""

    def __init__(self) -> None:
        self._groups: dict[str, ByPartition] = {}

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def groups(self) -> list[str]:
        return list(self._groups)

    def get(self, group: str, topic: str, partition: int) -> Committed | None:
        return self._groups.get(group, {}).get(topic, {}).get(partition)

    def of_group(self, group: str) -> ByPartition:
        """Return the group's offsets, by topic and partition. The caller must not change the result."""
        return self._groups.get(group, {})

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, Committed]]:
        """Yield (group, partition, offset) for each offset of the topic."""
        for group, topics in self._groups.items():
            for partition, committed in topics.get(topic, {}).items():
                yield group, partition, committed

    def put(self, group: str, topic: str, partition: int, committed: Committed) -> None:
        self._groups.setdefault(group, {}).setdefault(topic, {})[partition] = committed

    def remove(self, group: str, topic: str, partition: int) -> None:
        topics = self._groups.get(group, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is None or partitions:
            return
        del topics[topic]
        if not topics:
            del self._groups[group]

    def __iter__(self) -> Iterator[tuple[str, str, int, Committed]]:
        for group, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield group, topic, partition, committed


class Offsets:
    """The committed offsets of the groups in one partition of `__consumer_offsets`, and the pending ones by producer id."""

    def __init__(self) -> None:
        self.committed = OffsetTable()
        self._pending: dict[int, OffsetTable] = {}
        self._producers_of: dict[str, dict[tuple[str, int], dict[int, None]]] = {}
        """The producer ids with a pending offset, by group and (topic, partition). Without them, each look-up of a partition would search
        every open transaction."""

    def put(
        self, group: str, topic: str, partition: int, value: OffsetCommitValue, *, record_offset: int, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        """Store the committed offset `value` of a partition, as its record says. If `producer_id` is given, the offset is pending until
        that producer's transaction ends. `record_offset` is the offset of the record in `__consumer_offsets`."""
        table = self.committed
        if producer_id != NO_PRODUCER_ID:
            table = self._pending.setdefault(producer_id, OffsetTable())
            self._producers_of.setdefault(group, {}).setdefault((topic, partition), {})[producer_id] = None
        table.put(group, topic, partition, Committed(value, record_offset))

    def remove(self, group: str, topic: str, partition: int) -> None:
        self.committed.remove(group, topic, partition)
        for producer_id in list(self._producers_of.get(group, {}).get((topic, partition), ())):
            self._pending[producer_id].remove(group, topic, partition)
            self._forget_producer(producer_id, group, topic, partition)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply a transaction marker: the producer's pending offsets become committed, or are discarded."""
        for group, topic, partition, pending in self._pending.pop(producer_id, OffsetTable()):
            self._forget_producer(producer_id, group, topic, partition)
            before = self.committed.get(group, topic, partition)
            if commit and (before is None or pending.record_offset > before.record_offset):
                self.committed.put(group, topic, partition, pending)

    def _forget_producer(self, producer_id: int, group: str, topic: str, partition: int) -> None:
        of_group = self._producers_of[group]
        producers = of_group[topic, partition]
        del producers[producer_id]
        if not producers:
            del of_group[topic, partition]
            if not of_group:
                del self._producers_of[group]

    def has_pending(self, group: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self._producers_of.get(group, ())

    def has_open_transaction(self, group: str) -> bool:
        return group in self._producers_of

    def keys_of(self, group: str) -> list[tuple[str, int]]:
        """Return every (topic, partition) for which the group has a committed or pending offset, without duplicates."""
        committed = ((topic, partition) for topic, partitions in self.committed.of_group(group).items() for partition in partitions)
        return list(dict.fromkeys([*committed, *self._producers_of.get(group, ())]))

    def keys_of_topic(self, topic: str, topic_id: bytes) -> list[tuple[str, int]]:
        """Return every (group, partition) with a committed or pending offset of this topic, without duplicates. An offset that was
        committed for another topic of the same name, as its topic id tells, is left out (Kafka's OffsetMetadataManager.onTopicsDeleted)."""
        keys: dict[tuple[str, int], None] = {}
        for table in (self.committed, *self._pending.values()):
            of_topic = table.of_topic(topic)
            keys.update(((group, partition), None) for group, partition, found in of_topic if found.value.topic_id in {ZERO_UUID, topic_id})
        return list(keys)

    def is_expired(self, value: OffsetCommitValue, base_ms: int, retention_ms: int, now_ms: int) -> bool:
        """Return whether an offset has expired at `now_ms`: by its own expiry time (records of version 1), otherwise `retention_ms` after
        `base_ms`. All times are wall clock ms."""
        if value.expire_timestamp != NO_EXPIRY:
            return now_ms >= value.expire_timestamp
        return now_ms - base_ms >= retention_ms

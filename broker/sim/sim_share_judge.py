"""Records the deliveries and acknowledgements of the simulated share group, and checks these rules:

* After a leader has confirmed that a record is accepted or rejected, no request that is sent afterwards gets the record again.
* A delivery count is never greater than the limit. It is greater than that of each earlier delivery whose acknowledgement a leader has
  confirmed.
* A member gets the records of the log, and none of an aborted transaction.
* In `__share_group_state` neither the start offset nor a record's delivery count decreases.
* In the end every record is acknowledged or archived. It is acknowledged only if a member accepted it, and archived only if a member
  rejected it or it was delivered as often as the limit allows. An acceptance or rejection that a leader has confirmed decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.share.acknowledgement import AcknowledgeType
from ottla.broker.share.in_flight import RecordState
from ottla.broker.share.state_records import decode_record
from ottla.broker.sim.log_batches import batches_of
from ottla.broker.testing.contents import Stored
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.records.record import iter_records
from ottla.protocol.share_log import ShareSnapshotValue

GROUP: Final = "workers"
LIMIT: Final = 5
_POISON_EVERY: Final = 40
"""One of this many records is never accepted by any member, so that its delivery count reaches the limit."""
_ENDS: Final = {AcknowledgeType.ACCEPT, AcknowledgeType.REJECT}

Offset = tuple[str, int, int]
"""The position of a record in a log: (topic, partition, offset)."""


@dataclass(slots=True)
class Delivery:
    """One delivery of a record to a share group member, with the member's acknowledgement.

    `sent` is the event number of the member's request (see `ShareGroupHistory.next_number`), `count` the delivery count, and `type` the
    acknowledgement type (None: not acknowledged). `value` is None if the offset has no record.
    """

    offset: Offset
    sent: int
    count: int
    value: bytes | None
    type: int | None = None


class ShareGroupHistory:
    """All deliveries and acknowledgements of a simulated share group. For each violated rule, a text is added to `wrong`."""

    def __init__(self, wrong: list[str]) -> None:
        self.wrong = wrong
        self.topic_ids: dict[str, bytes] = {}
        self._deliveries = self._accepted = self._given_up = 0
        self._numbers = 0
        self._values: dict[Offset, bytes | None] = {}
        self._acknowledgements: dict[Offset, set[int]] = {}
        """For each record: the types of all acknowledgements that members have sent, whether or not a leader has responded."""
        self._ended: dict[Offset, tuple[int, int]] = {}
        """For each record whose acceptance or rejection a leader has confirmed: the event number of the leader's response (see
        `next_number`), and the acknowledgement type."""
        self._counts: dict[Offset, tuple[int, int]] = {}
        """For each record with a confirmed acknowledgement other than RENEW: the greatest delivery count that was acknowledged, and the
        event number of the leader's response (see `next_number`)."""
        self._last_deliveries: set[Offset] = set()
        """The records that were delivered as often as the limit allows."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """The numbers of deliveries, of accepted records, and of records that were archived because they were delivered too often. The last
        two are set by `judge`."""
        return self._deliveries, self._accepted, self._given_up

    def next_number(self) -> int:
        """Return the next event number. The events of a run (requests of members, and the responses to them) are numbered in their
        order."""
        self._numbers += 1
        return self._numbers

    def is_poison(self, value: bytes) -> bool:
        """Return whether a record with this value is one that no member ever accepts."""
        return sum(value) % _POISON_EVERY == 0

    def delivered(self, member: str, one: Delivery) -> None:
        """Record one delivery to a member. Check it against the earlier deliveries and the confirmed acknowledgements; add a text to
        `wrong` for each violated rule."""
        self._deliveries += 1
        ended, acknowledged = self._ended.get(one.offset), self._counts.get(one.offset)
        if ended is not None and ended[0] < one.sent:
            self.wrong.append(f"{member} was given {one.offset} again after {AcknowledgeType(ended[1]).name} was answered")
        if acknowledged is not None and acknowledged[1] < one.sent and one.count <= acknowledged[0]:
            self.wrong.append(f"{member} was given {one.offset} with count {one.count}; {acknowledged[0]} was acknowledged before")
        if one.count == LIMIT:
            self._last_deliveries.add(one.offset)
        if one.count > LIMIT:
            self.wrong.append(f"{member} was given {one.offset} for the {one.count}th time; the limit is {LIMIT}")
        if self._values.setdefault(one.offset, one.value) != one.value:
            self.wrong.append(f"{member} was given {one.value!r} at {one.offset}, which was {self._values[one.offset]!r} before")

    def acknowledging(self, acknowledged: Mapping[TopicPartition, list[Delivery]]) -> None:
        """Record the acknowledgements in a request that a member is about to send."""
        for one in chain.from_iterable(acknowledged.values()):
            if one.type is not None:
                self._acknowledgements.setdefault(one.offset, set()).add(one.type)

    def answered(self, member: str, ones: Iterable[Delivery], *, ok: bool) -> None:
        """Record the response to a member's acknowledgements `ones`. `ok` means that the leader has confirmed them."""
        number = self.next_number()
        for one in ones if ok else ():
            if one.type in _ENDS:
                self._ended[one.offset] = number, one.type
            if one.type != AcknowledgeType.RENEW and one.count > self._counts.get(one.offset, (0, 0))[0]:
                self._counts[one.offset] = one.count, number

    # --- the end -------------------------------------------------------------------------------------------------------------------

    def judge(self, stored: Iterable[Stored], states: Iterable[Partition]) -> list[str]:
        """Return a text for each rule that a finished run has violated. `stored` are the records in the logs of the run's topics; `states`
        are the partitions of `__share_group_state`."""
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        newest: dict[Offset, tuple[int, int]] = {}
        found: list[str] = []
        for partition in states:
            found += _check_state_partition(partition, names, newest)
        for each in stored:
            if each.topic not in self.topic_ids:
                continue
            offset = (each.topic, each.partition, each.offset)
            given = self._values.get(offset)
            if given is not None and (given != each.value or not each.outcome.readable):
                found.append(f"the share group was given {given!r} at {offset}, where the log has {each.value!r} ({each.outcome.value})")
            if each.outcome.readable:
                found += self._check_final_state(offset, *newest.get(offset, (0, RecordState.AVAILABLE)))
        return found

    def _check_final_state(self, offset: Offset, count: int, state: int) -> Iterator[str]:
        """Check the final delivery count and delivery state of a record that the share group had to process; yield a text for each violated
        rule."""
        types = self._acknowledgements.get(offset, set())
        ended = self._ended.get(offset)
        if state == RecordState.ACKNOWLEDGED:
            self._accepted += 1
            if AcknowledgeType.ACCEPT not in types:
                yield f"{offset} is acknowledged, but no member has accepted it"
        elif state == RecordState.ARCHIVED:
            self._given_up += count == LIMIT
            if count < LIMIT and AcknowledgeType.REJECT not in types:
                yield f"{offset} is archived after {count} deliveries of {LIMIT}, but no member has rejected it"
        elif state == RecordState.AVAILABLE and offset in self._last_deliveries:
            # The lock of the last delivery expired: the record is archived even if that write failed (KAFKA
            # SharePartition.releaseAcquisitionLockOnTimeout).
            self._given_up += 1
        else:
            yield f"{offset} is lost: its last state is {RecordState(state).name} after {count} deliveries"
        if ended is not None and state != _STATES[AcknowledgeType(ended[1])]:
            yield f"{offset} is {RecordState(state).name}, although {AcknowledgeType(ended[1]).name} was answered"


_STATES: Final = {AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED, AcknowledgeType.REJECT: RecordState.ARCHIVED}


def _check_state_partition(partition: Partition, names: Mapping[bytes, str], states: dict[Offset, tuple[int, int]]) -> Iterator[str]:
    """Read one partition of `__share_group_state`, and add the newest (delivery count, delivery state) of each record to `states`. Yield a
    text if a snapshot has an older state of a record, or if a start offset decreases. `names` maps topic ids to topic names.

    A leader may repeat a write after a later one. So the newer of two states of a record is the one with the higher delivery count.
    """
    starts: dict[TopicPartition, int] = {}
    log = partition.log
    for _, _, data in batches_of(log, log.log_start_offset, log.log_end_offset):
        for record in iter_records(data):
            decoded = decode_record(record.key, record.value)
            if decoded is None or decoded.value is None or decoded.key.group_id != GROUP:
                continue
            tp = (names[decoded.key.topic_id], decoded.key.partition)
            start = decoded.value.start_offset
            if start < starts.get(tp, start):
                yield f"the start offset of {tp} went from {starts[tp]} to {start}"
            starts[tp] = start
            for batch in decoded.value.state_batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    now = (batch.delivery_count, batch.delivery_state)
                    newest = states.get((*tp, offset), now)
                    if isinstance(decoded.value, ShareSnapshotValue) and now < newest:
                        yield f"a snapshot has count and state {now} of {(*tp, offset)}, but {newest} was written before"
                    states[*tp, offset] = max(now, newest)

"""A share partition under test, with random members, time, failing and repeated writes, and crashes, beside a model that knows the state of
each record."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from ottla.broker.core.rejected import Rejected
from ottla.broker.share.acknowledgement import AcknowledgementBatch, AcknowledgeType, acknowledge
from ottla.broker.share.acquisition import Acquisition, Fetched, acquire
from ottla.broker.share.in_flight import InFlightState, RecordState
from ottla.broker.share.persister import SharePartitionKey, WrittenState
from ottla.broker.share.settings import ShareSettings
from ottla.broker.share.share_partition import SharePartition, StateUpdate
from ottla.broker.share.state_coordinator import ShareStateCoordinator
from ottla.broker.share.state_records import ShareRecord

MEMBERS = ["a", "b", "c"]
ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)
LOCK_MS = 1_000
KEY = SharePartitionKey("g", bytes(16), 0)


@dataclass
class Write:
    """A pending write of share state. `update` is None if the write was caused by expired locks. `acknowledged`: acknowledgement types by
    offset."""

    written: WrittenState
    update: StateUpdate | None
    member: str = ""
    acknowledged: dict[int, AcknowledgeType] = field(default_factory=dict)


class SharedPartition:
    """The share partition under test, its log, its persisted state, and the model: the member that holds each record, and the
    acknowledgements that were confirmed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.settings = ShareSettings(
            delivery_count_limit=self.random.choice([2, 3, 5, 10]),
            record_lock_duration_ms=LOCK_MS,
            partition_max_record_locks=self.random.choice([20, 100]),
        )
        self.now_ms = 0
        self.leader_epoch = 0
        self.log: list[Fetched] = []
        self.existing: set[int] = set()
        self.log_start = self.log_end = 0
        self.aborted: set[Fetched] = set()
        self.coordinator = ShareStateCoordinator(self.random.choice([0, 3, 500]), lambda topic_id, index: True)
        self.appended = 0
        """The number of records that the share coordinator has written to its log."""
        for record in self.coordinator.initialize(KEY, 0, 0, 0).records:
            self._append(record)
        self.writes: list[Write] = []
        self.repeated: list[WrittenState] = []
        """Writes of share state that succeeded, but whose responses the present leader did not get. The leader sends them again, maybe
        after later writes."""
        self.owners: dict[int, tuple[str, int]] = {}
        """The records that a member has acquired, by offset: the member's id, and the time at which its acquisition lock expires. A record
        is removed when it is acknowledged or released, or when the lock expires."""
        self.pending: dict[int, AcknowledgeType | None] = {}
        """The records whose acknowledgement or release is being persisted, by offset. None: the record is released because the member's
        session ended."""
        self.counts: dict[int, int] = {}
        """The number of deliveries of each record, by offset, as far as the present leader knows of them."""
        self.settled: dict[int, AcknowledgeType] = {}
        """The records, by offset, whose acceptance or rejection is persisted. Members get a response only after that."""
        self.given_up: set[int] = set()
        """The offsets of records that were archived because they were delivered too often."""
        self.violations: list[str] = []
        """The rules that the share partition broke."""
        self.partition = self._elected()

    def _expect(self, kept: bool, rule: str) -> None:
        if not kept:
            self.violations.append(rule)

    # --- steps -------------------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do one random action, and check the structure. Broken rules are added to `violations`."""
        steps = [
            (6, self.append),
            (12, self.fetch),
            (12, self.acknowledge),
            (8, self.finish_write),
            (3, self.pass_time),
            (1, self.leave),
            (2, self.repeat_write),
            (1, self.crash),
            (1, self.delete_records),
            (1, self.compact),
        ]
        self.random.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()
        self._check()

    def append(self) -> None:
        base = self.log_end + self.random.choice([0, 0, 0, 2])
        batch = Fetched(base, base + self.random.choice([0, 0, 1, 4, 15]))
        self.log_end = batch.last_offset + 1
        self.log.append(batch)
        if self.random.random() < 0.1:
            self.aborted.add(batch)
        else:
            self.existing |= set(range(batch.base_offset, batch.last_offset + 1))

    def fetch(self) -> None:
        partition = self.partition
        offset = partition.next_fetch_offset()
        if not partition.can_acquire:
            return
        if offset < self.log_start:
            partition.advance_to_log_start(self.log_start)
            return
        read = [batch for batch in self.log if batch.last_offset >= offset][: self.random.choice([1, 2, 5])]
        member = self.random.choice(MEMBERS)
        request = Acquisition(
            member, self.random.choice([1, 3, 10, 50]), self.random.choice([1, 5, 50]), self.random.random() < 0.3, self.now_ms
        )
        acquired = acquire(partition, request, offset, read, [batch for batch in read if batch in self.aborted])
        before = -1
        for first, last, count in acquired:
            self._expect(before < first <= last, "acquired records ascend")
            before = last
            for each in range(first, last + 1):
                self._acquired(each, member, count)
        if request.record_limit:
            self._expect(sum(part.record_count for part in acquired) <= request.max_records, "no more records than asked for")

    def _acquired(self, offset: int, member: str, count: int) -> None:
        self._expect(offset not in self.owners, f"{offset} is delivered to {member} while {self.owners.get(offset)} has it")
        self._expect(offset not in self.pending, f"{offset} is delivered while its acknowledgement is under way")
        self._expect(offset not in self.settled, f"{offset} is delivered again after {self.settled.get(offset)}")
        there = (batch for batch in self.log if batch.base_offset <= offset <= batch.last_offset)
        self._expect(not any(batch in self.aborted for batch in there), f"{offset} was aborted")
        before = self.counts.get(offset, 0)
        self._expect(count == before + 1, f"{offset} was delivered {before} times before, not {count - 1}")
        self._expect(count <= self.settings.delivery_count_limit, f"{offset} is delivered more often than allowed")
        self.counts[offset] = count
        self.owners[offset] = member, self.now_ms + LOCK_MS

    def acknowledge(self) -> None:
        member = self.random.choice(MEMBERS)
        own = self._held_by(member)
        if not own:
            return
        begin = self.random.randrange(len(own))
        chosen = own[begin : begin + self.random.choice([1, 3, 20])]
        kinds = {offset: self.random.choices([ACCEPT, RELEASE, REJECT, RENEW], [8, 3, 1, 1])[0] for offset in chosen}
        same = self.random.random() < 0.5
        batches = []
        for offset in chosen:
            kind = kinds[chosen[0]] if same else kinds[offset]
            kinds[offset] = kind
            if batches and batches[-1][1] + 1 == offset:
                batches[-1] = (batches[-1][0], offset, [*batches[-1][2], kind])
            else:
                batches.append((offset, offset, [kind]))
        acknowledgements = [AcknowledgementBatch(first, last, types[:1] if same else types) for first, last, types in batches]
        if self.random.random() < 0.1:
            acknowledgements.append(AcknowledgementBatch(self.partition.end_offset + 5, self.partition.end_offset + 6, [ACCEPT]))
            kinds = {offset: kind for offset, kind in kinds.items() if kind is RENEW}
            try:
                acknowledge(self.partition, member, acknowledgements, self.now_ms)
            except Rejected:
                self._renewed(member, kinds)
                return
            self.violations.append("records that were never acquired were acknowledged")
            return
        update = acknowledge(self.partition, member, acknowledgements, self.now_ms)
        self._renewed(member, kinds)
        changed = {offset: kind for offset, kind in kinds.items() if kind is not RENEW and offset >= self.partition.start_offset}
        self.pending |= changed
        self._begin(update, member, changed)

    def _held_by(self, member: str) -> list[int]:
        return sorted(offset for offset, (owner, _) in self.owners.items() if owner == member and offset not in self.pending)

    def _renewed(self, member: str, kinds: dict[int, AcknowledgeType]) -> None:
        for offset, kind in kinds.items():
            if kind is RENEW and offset >= self.partition.start_offset:
                self.owners[offset] = member, self.now_ms + LOCK_MS

    def _begin(self, update: StateUpdate, member: str, acknowledged: dict[int, AcknowledgeType]) -> None:
        if update.batches:
            self.writes.append(Write(self.partition.state_to_write(update.batches), update, member, acknowledged))

    def finish_write(self) -> None:
        """Let the oldest pending write of share state succeed or fail."""
        if not self.writes:
            return
        write = self.writes.pop(0)
        succeeded = self.random.random() < 0.8
        if succeeded:
            self._persist(write)
        if write.update is None:
            self.partition.trim()
            return
        if succeeded:
            self.partition.commit(write.update)
        else:
            self.partition.roll_back(write.update, self.now_ms)
        for first, last, _, _ in write.update.batches:
            for offset in range(first, last + 1):
                kind = self.pending.pop(offset, None)
                _, deadline = self.owners.get(offset, ("", -1))
                compacted = kind in {RELEASE, None} and offset not in self.existing and not self._is_acquired(offset)
                if succeeded or compacted or deadline <= self.now_ms:
                    self.owners.pop(offset, None)

    def _is_acquired(self, offset: int) -> bool:
        return any(run.state.state is RecordState.ACQUIRED for run in self.partition.runs(offset, offset))

    def _persist(self, write: Write) -> None:
        self._write(write.written)
        self.settled |= {offset: kind for offset, kind in write.acknowledged.items() if kind is not RELEASE}
        if self.random.random() < 0.3:
            self.repeated.append(write.written)

    def _write(self, written: WrittenState) -> None:
        for record in self.coordinator.write(KEY, written, self.now_ms).records:
            self._append(record)

    def _append(self, record: ShareRecord) -> None:
        self.coordinator.apply(record, self.appended)
        self.appended += 1

    def repeat_write(self) -> None:
        """Write the contents of an earlier, successful write again, as a leader does if it did not get the response."""
        if self.repeated:
            self._write(self.repeated.pop(self.random.randrange(len(self.repeated))))

    def pass_time(self) -> None:
        self.now_ms += self.random.choice([10, 300, LOCK_MS])
        expired = self.partition.expire_locks(self.now_ms)
        for offset, (_, deadline) in list(self.owners.items()):
            if deadline <= self.now_ms and offset not in self.pending:
                del self.owners[offset]
        for _, last, state, count in expired:
            if state == RecordState.ARCHIVED:
                often = count >= self.settings.delivery_count_limit
                self._expect(often or last < self.partition.start_offset, f"{last} was archived too early")
        if expired:
            self.writes.append(Write(self.partition.state_to_write(expired), None))

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        update = self.partition.release(member)
        start = self.partition.start_offset
        released = {offset for first, last, _, _ in update.batches for offset in range(max(first, start), last + 1)}
        self._expect(sorted(released) == self._held_by(member), f"{sorted(released)} were released, not {self._held_by(member)}")
        self.pending |= dict.fromkeys(released)
        self._begin(update, member, {})

    def crash(self) -> None:
        """Let another broker become the leader, as after a crash. Writes of share state that are under way may or may not have reached the
        log."""
        for write in self.writes:
            if self.random.random() < 0.5:
                break
            self._persist(write)
        self.writes.clear()
        self.owners.clear()
        self.pending.clear()
        self.partition = self._elected()

    def _elected(self) -> SharePartition:
        self.leader_epoch += 1
        self.repeated.clear()  # they would be rejected
        partition = SharePartition(lambda: self.settings, self.leader_epoch)
        effects = self.coordinator.read(KEY, self.leader_epoch, self.now_ms)
        for record in effects.records:
            self._append(record)
        read = effects.response
        partition.load(read, read.start_offset)
        self.counts = {offset: count for first, last, _, count in read.batches for offset in range(first, last + 1)}
        return partition

    def delete_records(self) -> None:
        if self.log:
            self.log_start = max(self.log_start, min(self.log[-1].last_offset + 1, self.log_start + self.random.randrange(10)))
            self.log = [batch for batch in self.log if batch.last_offset >= self.log_start]
            self.existing = {offset for offset in self.existing if offset >= self.log_start}

    def compact(self) -> None:
        """Remove a random batch from the log, as compaction or deletion does."""
        if len(self.log) > 2:
            base, last = self.log.pop(self.random.randrange(1, len(self.log) - 1))
            self.existing -= set(range(base, last + 1))

    # --- checks ------------------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Check the structure: each offset in flight has one state, and counters agree with the states.

        Records that the log has deleted are not checked; they leave the structure with the next acknowledgement.
        """
        partition, complete, end = self.partition, 0, -1
        self.owners = {offset: owner for offset, owner in self.owners.items() if offset >= partition.start_offset}
        for batch in partition.in_flight:
            self._expect(batch.first_offset > end, "batches do not overlap")
            end = batch.first_offset - 1
            for run in batch.runs:
                self._expect(run.first_offset == end + 1 <= run.last_offset, "runs follow each other")
                end = run.last_offset
                if run.state.state.is_terminal:
                    complete += max(0, run.last_offset - max(run.first_offset, partition.start_offset) + 1)
                for offset in range(max(run.first_offset, partition.start_offset), run.last_offset + 1):
                    self._check_state(offset, run.state)
            self._expect(end == batch.last_offset, "runs cover the batch")
        self._expect(partition.delivery_complete_count == complete, "each record in a final state is counted once")

    def _check_state(self, offset: int, found: InFlightState) -> None:
        owned = offset in self.owners and offset not in self.pending
        state = found.state
        self._expect((state is RecordState.ACQUIRED) == owned, f"{offset} is {state.name}, and its owner is {self.owners.get(offset)}")
        if owned:
            self._expect(found.member_id == self.owners[offset][0], f"{offset} belongs to {found.member_id}")
        if offset in self.settled:
            self._expect(state.is_terminal, f"{offset} is {state.name} after {self.settled[offset]}")
        if state is RecordState.ARCHIVED and found.delivery_count >= self.settings.delivery_count_limit:
            self.given_up.add(offset)

    def settle(self) -> list[int]:
        """Let one member accept all remaining records. Return the offsets that were never accepted, rejected or archived."""
        while self.writes:
            self.finish_write()
        self.now_ms += LOCK_MS
        self.partition.expire_locks(self.now_ms)
        self.owners.clear()
        self.pending.clear()
        idle = 0
        while idle < 3:
            before = dict(self.counts), self.partition.start_offset
            self.partition.trim()
            self.fetch()
            for member in MEMBERS:
                own = self._held_by(member)
                batches = [AcknowledgementBatch(offset, offset, [ACCEPT]) for offset in own]
                update = acknowledge(self.partition, member, batches, self.now_ms)
                self._persist(Write(self.partition.state_to_write(update.batches), update, member, dict.fromkeys(own, ACCEPT)))
                self.partition.commit(update)
                for offset in own:
                    del self.owners[offset]
            idle = 0 if before != (self.counts, self.partition.start_offset) else idle + 1
        limit = self.settings.delivery_count_limit
        known = self.given_up | self.settled.keys() | {offset for offset, count in self.counts.items() if count >= limit}
        return sorted(self.existing - known)

"""The share coordinator's state machine without a broker. Every record is encoded and decoded on its way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.share.persister import ReadState, SharePartitionKey, StateBatch, StateSummary, WrittenState
from ottla.broker.share.state_coordinator import ShareStateCoordinator
from ottla.broker.share.state_records import ShareRecord, decode_record, encode_record
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.share_log import ShareSnapshotValue, ShareUpdateValue

TOPIC = b"t" * 16
KEY = SharePartitionKey("g", TOPIC, 0)
OTHER = SharePartitionKey("g", TOPIC, 1)


class Log:
    """The state machine over a log in memory; its topic has two partitions."""

    def __init__(self, updates_per_snapshot: int = 2, *, is_strict: bool = False) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.is_strict = is_strict
        self.records: list[tuple[bytes, bytes | None]] = []
        self.machine = self.replayed()
        self.now_ms = 1_000

    def replayed(self) -> ShareStateCoordinator:
        """Return a state machine that has loaded the log."""
        machine = ShareStateCoordinator(
            self.updates_per_snapshot, lambda topic_id, index: topic_id == TOPIC and index < 2, is_strict=self.is_strict
        )
        for offset, record in enumerate(self.records):
            decoded = decode_record(*record)
            assert decoded is not None
            machine.apply(decoded, offset)
        return machine

    def append(self, records: Sequence[ShareRecord]) -> list[ShareRecord]:
        for record in records:
            self.records.append(encode_record(record))
            self.machine.apply(record, len(self.records) - 1)
        return list(records)

    def initialize(self, key: SharePartitionKey = KEY, epoch: int = 1, start_offset: int = -1) -> list[ShareRecord]:
        return self.append(self.machine.initialize(key, epoch, start_offset, self.now_ms).records)

    def write(self, *batches: StateBatch, start_offset: int = 0, leader_epoch: int = 0, epoch: int = 1) -> list[ShareRecord]:
        state = WrittenState(epoch, leader_epoch, start_offset, 3, batches)
        return self.append(self.machine.write(KEY, state, self.now_ms).records)

    def read(self, leader_epoch: int = 0) -> ReadState:
        effects = self.machine.read(KEY, leader_epoch, self.now_ms)
        self.append(effects.records)
        return effects.response


def code_of(call: object, *arguments: object) -> ErrorCode:
    assert callable(call)
    with pytest.raises(Rejected) as rejected:
        call(*arguments)
    return rejected.value.code


def test_a_share_partition_begins_with_a_snapshot() -> None:
    log = Log()
    (record,) = log.initialize(start_offset=5)
    assert record.value == ShareSnapshotValue(0, 1, 0, 5, 0, 1_000, 1_000, [])
    assert log.read() == ReadState(1, 5, [])
    assert log.machine.summary(KEY) == StateSummary(1, 0, 5, 0)


def test_the_completed_deliveries_of_an_unknown_start_offset_are_unknown() -> None:
    log = Log()
    log.initialize()
    assert log.machine.summary(KEY) == StateSummary(1, 0, -1, -1)


def test_a_new_state_epoch_begins_without_delivery_states() -> None:
    log = Log()
    log.initialize()
    log.write(StateBatch(0, 9, 2, 1))
    (record,) = log.initialize(epoch=2, start_offset=4)
    assert isinstance(record.value, ShareSnapshotValue)
    assert (record.value.snapshot_epoch, record.value.leader_epoch) == (1, 0)
    assert log.read() == ReadState(2, 4, [])


def test_state_that_was_never_initialized_is_neither_read_nor_written() -> None:
    log = Log()
    assert code_of(log.read) is ErrorCode.INVALID_REQUEST
    assert code_of(log.write) is ErrorCode.INVALID_REQUEST
    assert log.machine.summary(KEY) == StateSummary()
    assert log.machine.delete(KEY).records == ()


@pytest.mark.parametrize(
    ("key", "code"), [(OTHER._replace(partition=2), 3), (KEY._replace(topic_id=bytes(16)), 3), (KEY._replace(partition=-1), 42)]
)
def test_a_partition_that_does_not_exist_has_no_state(key: SharePartitionKey, code: int) -> None:
    machine = Log().machine
    assert code_of(machine.initialize, key, 0, 0, 0) == code
    assert code_of(machine.summary, key) == code
    assert code_of(machine.delete, key) == code


def test_updates_accumulate_and_then_become_a_snapshot() -> None:
    log = Log(updates_per_snapshot=2)
    log.initialize(start_offset=0)
    (first,), (second,) = log.write(StateBatch(0, 4, 0, 1)), log.write(StateBatch(2, 2, 2, 1))
    (third,), (fourth,) = log.write(StateBatch(0, 1, 2, 1), start_offset=1), log.write(StateBatch(3, 4, 2, 1))
    assert [type(record.value) for record in (first, second, third, fourth)] == [
        ShareUpdateValue,
        ShareUpdateValue,
        ShareSnapshotValue,
        ShareUpdateValue,
    ]
    assert isinstance(third.value, ShareSnapshotValue)
    assert [(batch.first_offset, batch.last_offset, batch.delivery_state) for batch in third.value.state_batches] == [(1, 2, 2), (3, 4, 0)]
    assert third.value.snapshot_epoch == 1
    assert log.read().batches == [StateBatch(1, 2, 2, 1), StateBatch(3, 4, 2, 1)]


def test_without_updates_every_write_is_a_snapshot() -> None:
    log = Log(updates_per_snapshot=0)
    log.initialize()
    assert isinstance(log.write()[0].value, ShareSnapshotValue)


def test_a_read_announces_a_leader_epoch_that_fences_older_leaders() -> None:
    log = Log()
    log.initialize()
    log.read(leader_epoch=3)
    assert code_of(lambda: log.write(leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code_of(lambda: log.read(leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
    before = len(log.records)
    log.read(leader_epoch=3)
    log.read(leader_epoch=-1)
    assert len(log.records) == before, "a known leader epoch is not written again"
    assert log.machine.summary(KEY).leader_epoch == 3


def test_before_4_3_a_read_without_a_leader_epoch_is_fenced() -> None:
    machine = ShareStateCoordinator(500, lambda topic_id, index: True, reads_unfenced=False)
    (record,) = machine.initialize(KEY, 1, 0, 0).records
    machine.apply(record, 0)
    assert machine.read(KEY, 0, 0).response.state_epoch == 1
    assert code_of(lambda: machine.read(KEY, -1, 0)) is ErrorCode.FENCED_LEADER_EPOCH


def test_an_older_state_epoch_is_fenced() -> None:
    log = Log()
    log.initialize(epoch=4)
    assert code_of(lambda: log.write(epoch=3)) is ErrorCode.FENCED_STATE_EPOCH
    assert code_of(lambda: log.initialize(epoch=3)) is ErrorCode.FENCED_STATE_EPOCH


def test_a_repeated_write_does_not_move_the_start_offset_back() -> None:
    """The leader repeats a write whose response was lost; a later write may have succeeded, and the records it accepted would be delivered
    again."""
    log = Log()
    log.initialize(start_offset=0)
    log.write(StateBatch(0, 9, 2, 1))
    log.write(StateBatch(10, 11, 2, 1), start_offset=10)
    log.write(StateBatch(9, 9, 0, 1), StateBatch(12, 12, 0, 1), start_offset=5)
    assert log.read() == ReadState(1, 10, [StateBatch(10, 11, 2, 1), StateBatch(12, 12, 0, 1)])
    log.initialize(epoch=2, start_offset=4)
    assert log.read().start_offset == 4, "a reset of the group's offsets does"


def test_a_replay_restores_the_state() -> None:
    log = Log()
    log.initialize(start_offset=0)
    log.initialize(OTHER)
    for offset in range(7):
        log.write(StateBatch(offset, offset, 2, 1), start_offset=offset)
    log.read(leader_epoch=2)
    log.append(log.machine.delete(OTHER).records)
    assert log.replayed().states == log.machine.states
    assert log.replayed().redundant_before() == log.machine.redundant_before()


def test_records_before_the_oldest_snapshot_are_redundant() -> None:
    log = Log(updates_per_snapshot=1)
    assert log.machine.redundant_before() is None
    log.initialize()
    log.initialize(OTHER)
    assert log.machine.redundant_before() is None, "the first record is needed"
    log.write()
    log.write()
    assert log.machine.redundant_before() == 1, "the other one's snapshot is needed"
    log.append(log.machine.delete(OTHER).records)
    assert log.machine.redundant_before() == 3


def test_idle_share_partitions_get_snapshots_while_others_are_written() -> None:
    log = Log()
    log.initialize()
    log.initialize(OTHER)
    log.now_ms += 300_000
    (first, second) = log.append(log.machine.cold_snapshots(300_000, log.now_ms))
    assert isinstance(first.value, ShareSnapshotValue)
    assert (first.key, second.key) == (KEY, OTHER)
    assert (first.value.snapshot_epoch, first.value.create_timestamp, first.value.write_timestamp) == (1, 1_000, 301_000)
    assert log.machine.redundant_before() == 2
    log.now_ms += 300_000
    assert log.machine.cold_snapshots(300_000, log.now_ms) == [], "nothing is written, so nothing has to be deleted"


def test_a_deleted_topic_loses_its_state() -> None:
    log = Log()
    log.initialize()
    log.initialize(OTHER)
    log.append(log.machine.of_deleted_topic(TOPIC))
    assert log.machine.states == {}


@pytest.mark.parametrize(
    ("act", "name"),
    [
        (lambda machine: machine.initialize(KEY, -1, 0, 0), "state"),
        (lambda machine: machine.read(KEY, -1, 0), "leader"),
        (lambda machine: machine.write(KEY, WrittenState(0, -1, 0, 0, ()), 0), "leader"),
        (lambda machine: machine.write(KEY, WrittenState(-1, 0, 0, 0, ()), 0), "state"),
    ],
    ids=["initialize", "read", "write", "write in no state epoch"],
)
def test_negative_epochs_can_be_rejected(act: Callable[[ShareStateCoordinator], object], name: str) -> None:
    machine = ShareStateCoordinator(500, lambda topic_id, index: True, is_strict=True)
    with pytest.raises(Rejected, match=f"The {name} epoch cannot be a negative number"):
        act(machine)


@pytest.mark.parametrize(
    ("start_offset", "count", "expected"),
    [(0, 2, (0, 3)), (0, 4, (0, 4)), (-1, 9, (0, 3)), (5, 1, (5, 1))],
    ids=["an older count", "a newer count", "the start unchanged", "a later start"],
)
@pytest.mark.parametrize("updates_per_snapshot", [0, 500])
def test_strictly_a_write_lowers_no_count_at_the_same_start(
    start_offset: int, count: int, expected: tuple[int, int], updates_per_snapshot: int
) -> None:
    log = Log(updates_per_snapshot, is_strict=True)
    log.initialize(start_offset=0)
    log.write()  # a count of 3
    log.append(log.machine.write(KEY, WrittenState(1, 0, start_offset, count, ()), log.now_ms).records)
    summary = log.machine.summary(KEY)
    assert (summary.start_offset, summary.delivery_complete_count) == expected


def test_strictly_an_empty_batch_is_rejected() -> None:
    log = Log(is_strict=True)
    log.initialize(start_offset=0)
    with pytest.raises(Rejected, match="cannot be below its first offset") as rejected:
        log.write(StateBatch(71, 70, 0, 1))
    assert rejected.value.code is ErrorCode.INVALID_REQUEST


def test_strictly_the_error_about_an_older_state_epoch_has_the_text_of_4_4() -> None:
    log = Log(is_strict=True)
    log.initialize(epoch=3)
    with pytest.raises(Rejected, match=r"The coordinator rejected the request because the state epoch did not match\."):
        log.initialize(epoch=2)

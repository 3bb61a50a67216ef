"""Logs of consumer groups that commit with and without transactions: offsets that go back, inputs consumed twice, and legitimate resets."""

from __future__ import annotations

from pathlib import Path

from ottla.protocol.offset_log import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import encode_prefixed
from ottla.spark_jobs.corpus.case import Case
from ottla.spark_jobs.corpus.writer import T0, PartitionWriter


class Pipeline:
    """Writes the logs of an application that reads `in-0` and writes to `out-0`: the committed offsets of its consumer group, and its
    output."""

    def __init__(self, root: Path) -> None:
        self.offsets = PartitionWriter(root, "__consumer_offsets", 0)
        self.output = PartitionWriter(root, "out", 0)

    def commit(self, offset: int | None, *, group: str = "g", partition: int = 0, pid: int = -1, epoch: int = -1) -> None:
        """Append an offset commit to `__consumer_offsets`: in a transaction if `pid` and `epoch` of a producer are given. `offset` None
        appends a tombstone."""
        key = encode_prefixed(OffsetCommitKey(group, "in", partition), 1, OFFSET_COMMIT)
        value = None if offset is None else encode_prefixed(OffsetCommitValue(offset, -1, "", T0), 3)
        record = SimpleRecord(key, value, T0)
        self.offsets.batch(build_batch([record], producer_id=pid, producer_epoch=epoch, transactional=pid >= 0))

    def transaction(self, pid: int, epoch: int, offset: int, *, committed: bool = True, writes: bool = True) -> None:
        """Write one transaction of the application: consume the input up to `offset`, write output for it if `writes`, and commit or abort.
        Each transaction has its own producer epoch."""
        if writes:
            self.output.data(2, pid=pid, epoch=epoch, seq=0, transactional=True)
        self.commit(offset, pid=pid, epoch=epoch)
        if writes:
            self.output.marker(pid, epoch=epoch + 1, committed=committed)
        self.offsets.marker(pid, epoch=epoch + 1, committed=committed)


def went_back(root: Path) -> None:
    pipeline = Pipeline(root)
    for offset in (10, 20, 15, 30):
        pipeline.commit(offset)


def honest_plain_commits(root: Path) -> None:
    pipeline = Pipeline(root)
    for offset in (10, 20, 20, 35):
        pipeline.commit(offset)
    pipeline.commit(5, partition=1)
    pipeline.commit(5, group="other")
    pipeline.commit(None)
    pipeline.commit(0)


def taken_by_a_zombie(root: Path) -> None:
    pipeline = Pipeline(root)
    pipeline.transaction(1, 0, 10)
    pipeline.transaction(1, 1, 20)
    pipeline.transaction(2, 0, 30)
    pipeline.transaction(1, 2, 25)


def taken_back(root: Path) -> None:
    pipeline = Pipeline(root)
    pipeline.transaction(1, 0, 10)
    pipeline.transaction(1, 1, 4)


def back_without_output(root: Path) -> None:
    pipeline = Pipeline(root)
    pipeline.transaction(1, 0, 10, writes=False)
    pipeline.transaction(1, 1, 4, writes=False)


def aborts_and_resets(root: Path) -> None:
    pipeline = Pipeline(root)
    pipeline.transaction(1, 0, 10)
    pipeline.transaction(1, 1, 20, committed=False)
    pipeline.transaction(1, 2, 15)
    pipeline.commit(None)
    pipeline.transaction(1, 3, 5)


def interleaved_groups(root: Path) -> None:
    pipeline = Pipeline(root)
    pipeline.commit(10, pid=1, epoch=0)
    pipeline.commit(20, pid=2, epoch=0, group="other")
    pipeline.offsets.marker(2, epoch=1)
    pipeline.commit(12, pid=2, epoch=1)
    pipeline.offsets.marker(1, epoch=1)
    pipeline.offsets.marker(2, epoch=2)


def reset_by_an_operator(root: Path) -> None:
    pipeline = Pipeline(root)
    pipeline.transaction(1, 0, 10)
    pipeline.commit(0)
    pipeline.transaction(1, 1, 10)


def outside(root: Path) -> None:
    pipeline = Pipeline(root)
    pipeline.transaction(1, 0, 10)
    pipeline.commit(20)
    pipeline.transaction(1, 1, 30)


PLACE = "__consumer_offsets-0@"
GROUPS: dict[str, Case] = {
    "group_went_back": Case(went_back, [("group-offsets", "warning", "offset went back", f"{PLACE}2")]),
    "group_commits": Case(honest_plain_commits, []),
    "input_taken_by_a_zombie": Case(
        taken_by_a_zombie, [("input-consumed-twice", "violation", "taken again by another producer", f"{PLACE}6")]
    ),
    "input_taken_back": Case(taken_back, [("input-consumed-twice", "violation", "taken back by the same producer", f"{PLACE}2")]),
    "input_taken_back_without_output": Case(
        back_without_output, [("input-consumed-twice", "warning", "taken back by the same producer", f"{PLACE}2")]
    ),
    "group_aborts_and_resets": Case(aborts_and_resets, []),
    "groups_interleaved": Case(interleaved_groups, []),
    "group_reset_by_an_operator": Case(reset_by_an_operator, [("group-offsets", "warning", "offset went back", f"{PLACE}2")]),
    "offsets_outside_a_transaction": Case(
        outside, [("offsets-outside-transaction", "warning", "moved on outside a transaction", f"{PLACE}2")]
    ),
}

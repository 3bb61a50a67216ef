"""One partition as its leader serves it, without a network: a stand-in for `Cluster` that readers of a partition can use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import PartitionData
from ottla.protocol.records.batch import read_header
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs.wire.address import Address
from ottla.spark_jobs.wire.find import Span, WireSegment, ranges_of

ADDRESS = Address((("127.0.0.1", 9092),))


def batch(base_offset: int, records: int, size: int = 10) -> bytes:
    """Make a batch of `records` records with values of `size` bytes."""
    return build_batch([SimpleRecord(None, b"v" * size, 1)] * records, base_offset=base_offset)


def run_of_batches(shapes: Iterable[tuple[int, int, int]]) -> list[bytes]:
    """Return successive batches from (offsets that compaction removed before the batch, records, bytes of each value)."""
    made, offset = [], 0
    for hole, records, size in shapes:
        made.append(batch(offset + hole, records, size))
        offset += hole + records
    return made


def segment(start: int, end: int, **changes: int) -> WireSegment:
    """Return the offsets from `start` to before `end` of the partition as one range (`WireSegment`)."""
    (whole,) = ranges_of(ADDRESS, Span("t", 0, start, end, False, 1), 1 << 60)
    for name, value in changes.items():
        object.__setattr__(whole, name, value)
    return whole


def ranges(end: int, count: int) -> list[WireSegment]:
    """Divide the offsets from 0 to before `end` into at most `count` ranges, and return the ranges."""
    return list(ranges_of(ADDRESS, Span("t", 0, 0, end, False, count), 1))


class FakeLeader:
    """A leader that serves fetches as Kafka does: from the batch with the offset on, cut after the requested bytes, but not inside the
    first batch."""

    def __init__(self, batches: Sequence[bytes], *, start: int = 0, answers: Sequence[ErrorCode] = ()) -> None:
        self.batches = list(batches)
        self.start = start
        self.end = max((read_header(each).last_offset + 1 for each in batches), default=start)
        self.answers = list(answers)
        """The error codes with which the leader answers the first fetches, one after the other."""
        self.fetched_offsets: list[int] = []
        self.refused: dict[int, ErrorCode] = {}
        """The error code with which the leader answers a fetch of an offset, by this offset."""

    def fetch(self, _partition: tuple[str, int], offset: int, max_bytes: int) -> PartitionData:
        self.fetched_offsets.append(offset)
        if self.answers:
            return PartitionData(error_code=self.answers.pop(0), high_watermark=-1)
        if offset in self.refused:
            return PartitionData(error_code=self.refused[offset], high_watermark=-1)
        if not self.start <= offset <= self.end:
            return PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
        left = [each for each in self.batches if read_header(each).last_offset >= offset]
        data = b"".join(left)[: max(max_bytes, len(left[0]) if left else 0)]
        return PartitionData(high_watermark=self.end, records=data)

    def offsets(
        self, partitions: Iterable[tuple[str, int]], _timestamp: int
    ) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], str]]:
        return dict.fromkeys(partitions, self.start), {}

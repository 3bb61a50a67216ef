"""Lists a cluster's partitions and divides them into ranges of offsets, which take the place of segments.

Invariants:
- A batch belongs to the range that contains its base offset, so tasks can read ranges in any order.
- A range's file name consists of the cluster, the partition and the range's first offset; positions in it count the fetched bytes.
- Brokers do not serve index files, producer snapshots, the cleaner's checkpoint or the clean-shutdown file, so these are missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from ottla.protocol.error_codes import ErrorCode
from ottla.spark_jobs.log_directory import COMPACTED_BY_DESIGN, COORDINATOR_TOPICS, POLICY_UNKNOWN, LogDirectory, Segment, no_logs
from ottla.spark_jobs.wire.address import PINNED, Address, address_of, url_with
from ottla.spark_jobs.wire.cluster import EARLIEST, LATEST, Cluster, Partition, WireError

RANGE_BYTES_MAX: Final = 64 << 20
RANGE_BYTES_MIN: Final = 4 << 20
RANGES_WANTED: Final = 16
RANGES_MAX: Final = 1 << 16
"""Maximum number of offset ranges into which one partition is divided."""
ASSUMED_BYTES: Final = 100
"""The assumed bytes per record if the brokers do not report log sizes."""
UNKNOWN_OFFSET: Final = 2**63 - 1
"""The value of `cleaned_to` (the offset below which compaction may have removed records) for a compacted partition, because brokers do not
report how far the cleaner has come."""
NOT_JUDGED: Final = "over the wire there are no index files, producer snapshots or checkpoints: rules that need them are not judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSegment(Segment):
    """A range of offsets of one partition, which is read with Fetch and takes the place of a segment file. `size_bytes` is an estimate.
    Fetching begins at `fetch_from`; the range has the batches with `lowest` <= base offset < `fetch_end`. `cut`: the suffix of the range's
    file name if only a part of the range is read."""

    address: Address = field(repr=False)
    fetch_from: int
    fetch_end: int
    lowest: int
    cut: str = ""

    @property
    def name(self) -> str:
        return f"{self.base_offset:020d}{self.cut}"


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of one partition that can be read: from `start` up to, not including, `end`. `size_bytes`: the partition's size, as its
    leader reports it."""

    topic: str
    partition: int
    start: int
    end: int
    compacted: bool
    size_bytes: int


@dataclass(slots=True)
class ClusterOffsets:
    """The readable offsets of each partition of a cluster, with notes and problems."""

    spans: list[Span] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    cluster_id: str = ""


def find_wire_logs(path: str | Address, topics: Collection[str] = ()) -> LogDirectory:
    """List the partitions of a cluster, divided into ranges of offsets (`WireSegment`). Failures are not raised: they are in the result's
    `problems`."""
    try:
        address = address_of(path)
    except (OSError, ValueError) as e:
        return LogDirectory(str(path).partition("?")[0], problems=[str(e)])
    found = LogDirectory(address.name)
    try:
        offsets = pinned(Path(address.pinned), topics) if address.pinned else list_offsets(address, topics)
    except WireError as e:
        found.problems.append(str(e))
        return found
    found.notes, found.problems = offsets.notes, offsets.problems
    target = min(RANGE_BYTES_MAX, max(RANGE_BYTES_MIN, sum(span.size_bytes for span in offsets.spans) // RANGES_WANTED))
    for span in offsets.spans:
        found.segments += ranges_of(address, span, target)
    if not found.segments and not found.problems:
        found.problems.append(no_logs(address.name, topics) if topics else f"{address.name}: no partitions that this user may read")
    return found


def list_offsets(address: Address, topics: Collection[str] = ()) -> ClusterOffsets:
    """Return the cluster's partitions with their current offsets. Raises WireError when no broker answers."""
    offsets = ClusterOffsets(notes=[NOT_JUDGED])
    with Cluster(address) as cluster:
        found = cluster.find(topics)
        offsets.cluster_id = found.cluster_id
        missing = {topic for topic in COORDINATOR_TOPICS if found.refused.get(topic) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name}
        offsets.problems += [f"{topic}: {reason}" for topic, reason in sorted(found.refused.items()) if topic not in missing]
        starts, refused = cluster.offsets(found.partitions, EARLIEST)
        ends, refused_too = cluster.offsets(starts, LATEST)
        offsets.problems += [f"{topic}-{index}: {why}" for (topic, index), why in sorted((refused | refused_too).items())]
        policies = cluster.cleanup_policies({topic for topic, _ in ends})
        sizes = cluster.sizes()
    unknown = {topic for topic, _ in ends} - policies.keys() - COMPACTED_BY_DESIGN
    offsets.notes += [f"{topic}: {POLICY_UNKNOWN}" for topic in sorted(unknown)]
    if not sizes and ends:
        offsets.notes.append(f"the brokers do not tell the logs' sizes (DescribeLogDirs): {ASSUMED_BYTES} bytes a record are assumed")
    offsets.spans = [_span(partition, starts, ends, policies, sizes) for partition in sorted(ends)]
    return offsets


def pin(url: str, topics: Collection[str], file: Path) -> str:
    """Write the cluster's current offsets to `file`, and return a URL that reads only up to them, whatever is appended later.

    If the cluster does not answer, return the URL unchanged.
    """
    try:
        offsets = list_offsets(address_of(url), topics)
    except (OSError, ValueError):
        return url
    file.write_text(json.dumps(asdict(offsets)), encoding="utf-8")
    return url_with(url, {PINNED: str(file)})


def pinned(file: Path, topics: Collection[str] = ()) -> ClusterOffsets:
    """Return the offsets of a cluster that `pin` wrote to `file`, with only these topics (empty: all). Raises WireError if the file cannot
    be read or is damaged."""
    try:
        text = file.read_text(encoding="utf-8")
        offsets = ClusterOffsets(**json.loads(text))
        offsets.spans = [span for span in (Span(**each) for each in json.loads(text)["spans"]) if not topics or span.topic in topics]
        offsets.problems = [each for each in offsets.problems if not topics or _names_one_of(each.partition(": ")[0], topics)]
    except (OSError, ValueError, TypeError) as e:
        raise WireError(f"{file}: {e}") from e
    return offsets


def _names_one_of(name: str, topics: Collection[str]) -> bool:
    """Return whether `name` is one of the topics, or a partition of one."""
    return name in topics or name.rpartition("-")[0] in topics


def narrowed(segment: Segment, start_offset: int, end_offset: int) -> WireSegment:
    """Limit a range to the wanted offsets, and return the result. If the wanted offsets begin inside the range, the batch with the first
    wanted offset is included even though its base offset may be lower."""
    assert isinstance(segment, WireSegment)
    start = max(segment.fetch_from, start_offset)
    lowest = 0 if start_offset >= segment.fetch_from else segment.lowest
    cut = segment.cut if start == segment.fetch_from else f"{segment.cut}@{start}"
    return replace(segment, fetch_from=start, fetch_end=min(segment.fetch_end, end_offset), lowest=lowest, cut=cut)


def _span(
    partition: Partition, starts: dict[Partition, int], ends: dict[Partition, int], policies: dict[str, str], sizes: dict[Partition, int]
) -> Span:
    topic = partition[0]
    start, end = starts[partition], ends[partition]
    compacted = topic in COMPACTED_BY_DESIGN or "compact" in policies.get(topic, "compact")
    return Span(*partition, start, max(start, end), compacted, sizes.get(partition, (end - start) * ASSUMED_BYTES))


def as_one_range(address: Address, span: Span, start: int) -> WireSegment:
    """Return the offsets of a partition from `start` on as a single range, which is read with Fetch like a segment file."""
    (whole,) = ranges_of(address, span, sys.maxsize)
    return replace(whole, fetch_from=start, lowest=0 if start == span.start else start)


def ranges_of(address: Address, span: Span, target: int) -> Iterator[WireSegment]:
    """Divide a partition's offsets into ranges of about `target` bytes; yield at least one. The bytes are estimated from the partition's
    reported size. The first range has base offset 0, because the partition's first batch may begin below the log start offset."""
    offsets = span.end - span.start
    wanted = min(RANGES_MAX, max(1, span.size_bytes // target, 1), max(1, offsets))
    cuts = [span.start + offsets * i // wanted for i in range(wanted)]
    for i, (start, end) in enumerate(zip(cuts, [*cuts[1:], span.end], strict=True)):
        base, last = start if i else 0, i == wanted - 1
        yield WireSegment(
            log_dir=address.name,
            topic=span.topic,
            partition=span.partition,
            directory=f"{address.name}/{span.topic}-{span.partition}",
            base_offset=base,
            size_bytes=max(span.size_bytes // wanted, int(offsets > 0)),
            log_start_offset=span.start,
            cleaned_to=UNKNOWN_OFFSET if span.compacted else 0,
            clean_shutdown=False,
            is_last=last,
            next_base_offset=None if last else end,
            index_bytes=-1,
            address=address,
            fetch_from=start,
            fetch_end=end,
            lowest=base,
        )

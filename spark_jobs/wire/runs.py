"""Reads a range of offsets from a broker as runs of batches, in the form in which `segment_reader` yields those of segment files."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.spark_jobs.log_directory import Segment
from ottla.spark_jobs.segment_reader import Run, Stop, runs_of
from ottla.spark_jobs.wire.cluster import Cluster
from ottla.spark_jobs.wire.find import WireSegment
from ottla.spark_jobs.wire.reader import Gap, RangeReader


def wire_runs(segment: Segment) -> Iterator[Run | Stop]:
    """Fetch the range of offsets `segment`. Yield its whole batches as runs (several adjacent batches at once), and a `Stop` for each gap
    and each range of damaged bytes. The position of an item is the number of bytes that were fetched before it. Raises WireError when the
    partition's leader does not answer."""
    assert isinstance(segment, WireSegment)
    if segment.fetch_from >= segment.fetch_end:
        return
    position = 0
    with Cluster(segment.address) as cluster:
        for item in RangeReader(segment, cluster).chunks():
            if isinstance(item, Gap):
                yield Stop(position, 0, f"offsets {item.start} to {item.end - 1}: {item.reason}", item.legal)
                continue
            for found in runs_of(item.data, segment):
                yield found._replace(position=position + found.position)
            position += len(item.data)

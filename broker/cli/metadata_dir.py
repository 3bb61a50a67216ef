"""Reads the metadata log of a data directory without a broker: no locks are taken, nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.broker.cli.common import CliError
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.metadata_loader import MetadataBatch, MetadataLoader
from ottla.broker.cluster.record_frames import decode_record
from ottla.broker.cluster.registrations import InconsistentRecord
from ottla.broker.cluster.snapshots import SnapshotId, read_snapshot
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import iter_records

METADATA_DIR = "__cluster_metadata-0"


def read_image(data_dir: Path) -> MetadataImage:
    """Return the cluster metadata as of the last record of the metadata log in `data_dir`, also while a broker uses the directory. Raises
    CliError if the log is missing or damaged."""
    directory = data_dir / METADATA_DIR
    if not directory.is_dir():
        raise CliError(f"{data_dir} has no metadata log: a data directory contains {METADATA_DIR}")
    loader = MetadataLoader()
    try:
        start = _load_snapshot(loader, directory)
        loader.load(batch for batch in _batches(directory) if batch.base_offset >= start)
    except (ProtocolError, InconsistentRecord, OSError) as error:
        raise CliError(f"{directory} cannot be read: {error}") from error
    return loader.published.image


def _load_snapshot(loader: MetadataLoader, directory: Path) -> int:
    """Load the newest metadata snapshot of the directory into `loader`; return the offset from which the log must be read, 0 without a
    snapshot. Raises ProtocolError or OSError if the snapshot cannot be read."""
    found = {known: path for path in directory.glob("*.checkpoint") if (known := SnapshotId.of_file(path.name)) is not None}
    newest = max(found, default=None)
    if newest is None or newest.end_offset == 0:
        return 0
    snapshot = read_snapshot(found[newest].read_bytes())
    loader.load_snapshot(snapshot.records, newest.end_offset, newest.epoch, snapshot.last_append_time_ms)
    return newest.end_offset


def _batches(directory: Path) -> Iterator[MetadataBatch]:
    for segment in sorted(directory.glob("*.log")):
        data = memoryview(segment.read_bytes())
        for pos, header in split_batches(data):
            whole = data[pos : pos + header.size_bytes]
            records = [] if header.is_control else [decode_record(stored.value or b"")[0] for stored in iter_records(whole)]
            yield MetadataBatch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.max_timestamp, records)

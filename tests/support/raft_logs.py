"""A metadata log in memory, and batches and snapshots to fill it with."""

from __future__ import annotations

import random
from pathlib import Path

from ottla.broker.cluster.image_records import to_records
from ottla.broker.cluster.snapshots import Snapshot, SnapshotId, write_snapshot
from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID
from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.files import Files
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.raft_log import RaftLog
from ottla.broker.storage.recovery import OpenRequest, open_log
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.metadata_images import level, made_of

DIRECTORY = Path("/data/__cluster_metadata-0")
NOW_MS = 1_700_000_000_000


def open_metadata_log(files: Files, config: LogConfig | None = None, *, clean: bool = True, recovery_point: int = 0) -> PartitionLog:
    """Open the metadata log in `DIRECTORY`, which is created if there is none, and return it."""
    files.make_dir(DIRECTORY)
    request = OpenRequest(
        directory=DIRECTORY,
        topic="__cluster_metadata",
        partition=0,
        topic_id=METADATA_TOPIC_ID,
        config=config or LogConfig(retention_ms=-1, retention_bytes=-1),
        now_ms=NOW_MS,
        files=files,
        open_files=OpenFiles(4),
        rng=random.Random(0),
        clean=clean,
        recovery_point=recovery_point,
    )
    return open_log(request)[0]


def batches(start: int, end: int, epoch: int = 1) -> bytes:
    """Make batches of one record each for the offsets from `start` to before `end`."""
    return b"".join(build_batch([SimpleRecord(None, b"x" * 20, NOW_MS)], base_offset=n, leader_epoch=epoch) for n in range(start, end))


def put_snapshot(log: RaftLog, snapshot: SnapshotId, append_time_ms: int = NOW_MS) -> None:
    """Store a snapshot that contains only the metadata level, as if this node had made it."""
    content = Snapshot(append_time_ms, list(to_records(made_of(level(30)))))
    log.snapshots.write(snapshot, write_snapshot(content, snapshot.epoch, 30, append_time_ms))
    log.snapshots.add(snapshot)

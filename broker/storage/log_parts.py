"""The input from which a `PartitionLog` is made: a partition's segments, producer state, leader epochs and offsets, as recovery has loaded
them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.files import Files
from ottla.broker.storage.leader_epochs import LeaderEpochs
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.producer_snapshots import ProducerSnapshots
from ottla.broker.storage.producer_state import ProducerState
from ottla.broker.storage.segment_list import SegmentList


@dataclass(slots=True)
class LogParts:
    """The components and offsets of a partition after recovery, from which a `PartitionLog` is made."""

    topic: str
    partition: int
    topic_id: bytes
    directory: Path
    config: LogConfig
    files: Files
    open_files: OpenFiles
    segments: SegmentList
    producers: ProducerState
    snapshots: ProducerSnapshots
    epochs: LeaderEpochs
    log_start_offset: int
    recovery_point: int
    log_end_offset: int
    producer_expiration_ms: int
    verifies_transactions: bool
    rng: random.Random
    with_files_to_delete: set[tuple[str, int]]
    """The partitions (topic, index) that have files to be removed later. All logs of a data directory share this set."""
    on_truncation: Callable[[tuple[str, int], int], None]
    """Called after each truncation with the partition (topic, index) and the base offset of the segment that is active then."""

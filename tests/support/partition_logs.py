"""Real partition logs and partitions over a temporary directory, for tests of the layers above."""

from __future__ import annotations

from pathlib import Path

from ottla.broker.core.clock import Clock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partition import ClusterContext, Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.log_values import AppendInfo
from ottla.protocol.records.batch import read_header
from ottla.protocol.records.record import SimpleRecord, build_batch

TOPIC_ID = b"\x05" * 16


def one_batch(*values: bytes, timestamp: int = 1_700_000_000_000) -> bytes:
    return build_batch([SimpleRecord(None, value, timestamp) for value in values or (b"x",)])


def append_verified(partition: Partition, batch: bytes) -> AppendInfo:
    """Append a batch of a transaction that the transaction coordinator has verified (KIP-890); return the result of the append."""
    header = read_header(batch)
    guard = partition.start_verification(header.producer_id, header.producer_epoch, header.base_sequence)
    return partition.append(batch, guard=guard)


class PartitionHarness:
    """A data directory with the partitions of topic `t`, and a registry that serves them."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        config: LogConfig | None = None,
        *,
        partitions: int = 1,
        files: Files = FILES,
        context: ClusterContext | None = None,
    ) -> None:
        self.failures: list[BaseException] = []
        self.flusher = Flusher(self.failures.append)
        self.partitions = Partitions(self.flusher, clock, context)
        self.log_dir = LogDir.open(path, BrokerSettings(), clock.now_ms(), files=files)
        for index in range(partitions):
            self.partitions.add(self.log_dir.create_log("t", index, TOPIC_ID, config or LogConfig()))

    def close(self) -> None:
        self.flusher.close()
        self.log_dir.close(clean=False)

"""A data directory: its lock, its partitions, and the checkpoint files about all of them (Kafka's LogManager).

Invariants:
* The lock is taken first and released last. The clean-shutdown marker is removed before anything changes, and written after everything is
  synced.
* A directory that belongs to another cluster or node is rejected with a message that names it, and is not changed.
* Damage is repaired and reported in `findings`. A partition with a disk error is named in `failed`; the others are served.
* A checkpoint file lists the partitions of this directory, including failed ones, and no others: a new topic must not start with the
  offsets of an older topic of the same name.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import random
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from ottla.broker.core.descriptors import max_open_segments
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.threads import Threads
from ottla.broker.storage import checkpoint_file as checkpoints
from ottla.broker.storage import meta_properties, partition_metadata
from ottla.broker.storage.checkpoint_file import CorruptCheckpoint, decode_offsets, encode_offsets
from ottla.broker.storage.dir_names import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    is_deleted,
    parse_partition_dir,
    partition_dir_name,
    partition_dir_name_with_suffix,
)
from ottla.broker.storage.errors import Damage, FsyncFailed, LogDirRefused
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.flush import FlushTicket
from ottla.broker.storage.meta_properties import MetaProperties, decode_meta, encode_meta
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.recovery import OpenRequest, new_log, open_log
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.uuids import encode_uuid, random_uuid

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
NO_BROKER_EPOCH: Final = -1
CLOSE_THREADS: Final = 8
"""The maximum number of logs that are synced concurrently in a clean shutdown: enough for the file system to batch its journal commits."""
CLOSE_AT_ONCE: Final = 64
"""The maximum number of logs whose syncs hold file descriptors at the same time in a clean shutdown."""

_OF_A_PARTITION: Final = re.compile(r"[0-9]{20}[.-]|leader-epoch-checkpoint|partition\.metadata")

Key = tuple[str, int]
Write = Callable[[], None]
"""A function that does one prepared change of the data directory (it writes a checkpoint file, or removes files) and may be called on any
thread. A function for a checkpoint file does nothing if a newer checkpoint or the same offsets were written before. Raises `OSError`; then
the file's old content stays."""

logger = logging.getLogger(__name__)


class LogDir:
    """An open data directory, made by `open`. `logs` has every served partition, by (topic, partition)."""

    def __init__(
        self, path: Path, settings: BrokerSettings, now_ms: int, *, files: Files, random_bytes: Callable[[int], bytes], threads: Threads
    ) -> None:
        self.path = path
        self.settings = settings
        self.was_clean = False
        self.previous_broker_epoch = NO_BROKER_EPOCH
        """The broker epoch in the clean-shutdown marker found at the start; -1 after an unclean shutdown, or outside a cluster."""
        self.broker_epoch = NO_BROKER_EPOCH
        """This broker's epoch, which a clean shutdown writes into the marker."""
        self.meta = MetaProperties("", -1, bytes(16))
        self.logs: dict[Key, PartitionLog] = {}
        self.failed: dict[Key, OSError] = {}
        self.first_dirty_offsets: dict[Key, int] = {}
        """The first dirty offset of each log, by (topic, partition). The log cleaner changes this mapping, and `cleaner-offset-checkpoint`
        stores it."""
        self.findings: list[Damage] = []
        self._now_ms = now_ms
        self._files = files
        self._random_bytes = random_bytes
        self._threads = threads
        self._rng = random.Random(random_bytes(8))
        self._open_files = OpenFiles(max_open_segments())
        self._directories_to_delete: dict[Path, int | None] = {}
        self._with_files_to_delete: set[Key] = set()
        self._checkpoints = itertools.count()
        self._checkpoint_lock = threading.Lock()
        self._truncations = self._truncations_checkpointed = 0
        self._written: dict[str, tuple[int, dict[Key, int]]] = {}
        """For each checkpoint file, by name: the number of the last write, and the offsets that it wrote."""
        self._found: dict[str, dict[Key, int]] = {}
        self._renamed = False
        self._lock = files.lock(path)

    @property
    def cluster_id(self) -> str:
        return self.meta.cluster_id

    @classmethod
    def open(
        cls,
        path: Path,
        settings: BrokerSettings,
        now_ms: int,
        *,
        files: Files = FILES,
        random_bytes: Callable[[int], bytes] = os.urandom,
        threads: Threads = ThreadPoolExecutor,
    ) -> LogDir:
        """Lock the directory and recover every partition in it; create the directory if it does not exist. Raises `LogDirLocked` if another
        broker uses it, `LogDirRefused` if it belongs to another node or cluster, or cannot be read or written."""
        try:
            files.make_dir(path)
        except OSError as e:
            raise LogDirRefused(f"the data directory {path} cannot be created: {e.strerror}") from e
        log_dir = cls(path, settings, now_ms, files=files, random_bytes=random_bytes, threads=threads)
        try:
            log_dir._load()
        except OSError as e:
            log_dir.close(clean=False)
            raise LogDirRefused(f"{e.filename or path} cannot be used: {e.strerror}") from e
        except BaseException:
            log_dir.close(clean=False)
            raise
        return log_dir

    # --- start -----------------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        self._load_meta()
        marker = self.path / CLEAN_SHUTDOWN
        self.was_clean = self._files.exists(marker)
        recovery_points = self._read_offsets(checkpoints.RECOVERY_POINT)
        log_starts = self._read_offsets(checkpoints.LOG_START)
        high_watermarks = self._read_offsets(checkpoints.REPLICATION)
        cleaned = self._read_offsets(checkpoints.CLEANER)
        if self.was_clean:
            self.previous_broker_epoch = _broker_epoch(self._files.read_bytes(marker))
            self._files.remove(marker)
            self._files.sync_dir(self.path)
        for entry in self._files.scan(self.path):
            if not entry.is_dir:
                continue
            if is_deleted(entry.name):
                self._directories_to_delete[self.path / entry.name] = None
            elif (key := parse_partition_dir(entry.name)) is not None:
                self._load_log(key, recovery_points.get(key, 0), log_starts.get(key, 0), high_watermarks.get(key, 0))
        self.first_dirty_offsets = {key: offset for key, offset in cleaned.items() if key in self.logs}
        for key, log in self.logs.items():  # a log may have lost its end, which the checkpoints count as synced or clean
            active_base_offset = log.segments.active.base_offset
            if log.recovery_point < recovery_points.get(key, 0) or active_base_offset < cleaned.get(key, 0):
                self._log_truncated(key, active_base_offset)
        for finding in self.findings:
            logger.warning("%s", finding)

    def _load_meta(self) -> None:
        path = self.path / meta_properties.FILE_NAME
        settings = self.settings
        if not self._files.exists(path):
            if settings.process_roles:
                raise LogDirRefused(
                    f"{self.path} is not formatted, it has no {meta_properties.FILE_NAME}: run "
                    "`ottla format --cluster-id ID --config FILE` with the id of the cluster that this node belongs to "
                    "(and --standalone for its controller)"
                )
            cluster_id = settings.cluster_id or encode_uuid(random_uuid(self._random_bytes))
            self.meta = MetaProperties(cluster_id, settings.node_id, random_uuid(self._random_bytes))
            self._files.write_atomic(path, encode_meta(self.meta, self._now_ms))
            return
        try:
            self.meta = decode_meta(self._files.read_bytes(path))
        except ValueError as e:
            raise LogDirRefused(f"{path}: {e}") from e
        if self.meta.node_id != settings.node_id:
            raise LogDirRefused(f"{path} belongs to node {self.meta.node_id}; node.id is {settings.node_id}")
        if settings.cluster_id and settings.cluster_id != self.meta.cluster_id:
            raise LogDirRefused(f"{path} belongs to cluster {self.meta.cluster_id}; cluster.id is {settings.cluster_id}")
        if self.meta.directory_id == bytes(16):  # written by a Kafka before 3.7; a cluster identifies directories by id
            self.meta = replace(self.meta, directory_id=random_uuid(self._random_bytes))
            self._files.write_atomic(path, encode_meta(self.meta, self._now_ms))

    def _read_offsets(self, name: str) -> dict[Key, int]:
        path = self.path / name
        try:
            data = self._files.read_bytes(path)
            self._found[name] = decode_offsets(data)
        except FileNotFoundError:
            return {}
        except CorruptCheckpoint as e:
            self.findings.append(Damage(path, f"not usable ({e}); the logs themselves are read instead"))
            self.was_clean = self.was_clean and name != checkpoints.RECOVERY_POINT
            return {}
        self._written[name] = -1, self._found[name]
        return self._found[name]

    def _load_log(self, key: Key, recovery_point: int, log_start: int, high_watermark: int) -> None:
        directory = self.path / partition_dir_name(*key)
        try:
            topic_id = self._topic_id(directory)
            if topic_id == partition_metadata.NO_TOPIC_ID and not self._looks_like_a_partition(directory):
                self.findings.append(Damage(directory, "has no partition's files and is ignored"))
                return
            request = self._request(key, topic_id, self._default_config())
            request.clean, request.recovery_point, request.log_start_offset = self.was_clean, recovery_point, log_start
            log, findings = open_log(request)
        except OSError as e:
            self.failed[key] = e
            logger.error("%s cannot be opened and is offline: %s", directory, e)
            return
        self.findings += findings
        log.advance_high_watermark(min(max(high_watermark, log.log_start_offset), log.log_end_offset))
        self.logs[key] = log

    def _looks_like_a_partition(self, directory: Path) -> bool:
        """Return whether the directory has a partition's files, or is empty, as after a crash just after it was created. Other directories
        can have a partition's name, too (`photos-2024`)."""
        names = [entry.name for entry in self._files.scan(directory)]
        return not names or any(_OF_A_PARTITION.match(name) for name in names)

    def _topic_id(self, directory: Path) -> bytes:
        path = directory / partition_metadata.FILE_NAME
        try:
            return partition_metadata.decode_metadata(self._files.read_bytes(path))
        except FileNotFoundError:
            self.findings.append(Damage(path, "missing; the partition's topic id is unknown"))
        except ValueError as e:
            self.findings.append(Damage(path, f"not usable ({e}); the partition's topic id is unknown"))
        return partition_metadata.NO_TOPIC_ID

    def _default_config(self) -> LogConfig:
        """Return the broker's default topic configuration: a log is opened with it, before its topic's configuration is known."""
        settings = self.settings
        return LogConfig(
            index_interval_bytes=settings.log_index_interval_bytes,
            segment_index_bytes=settings.log_index_size_max_bytes,
            segment_bytes=settings.internal_segment_bytes or settings.log_segment_bytes,
            file_delete_delay_ms=settings.log_segment_delete_delay_ms,
        )

    def _request(self, key: Key, topic_id: bytes, config: LogConfig) -> OpenRequest:
        return OpenRequest(
            directory=self.path / partition_dir_name(*key),
            topic=key[0],
            partition=key[1],
            topic_id=topic_id,
            config=config,
            now_ms=self._now_ms,
            files=self._files,
            open_files=self._open_files,
            rng=self._rng,
            with_files_to_delete=self._with_files_to_delete,
            on_truncation=self._log_truncated,
            producer_expiration_ms=self.settings.producer_id_expiration_ms,
            verifies_transactions=self.settings.transaction_partition_verification_enable,
            of_cluster_broker=self.settings.is_cluster_broker,
        )

    # --- partitions ------------------------------------------------------------------------------------------------------------

    def create_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig, *, at_once: bool = False) -> PartitionLog:
        """Create the log of a new partition. Its directory is created by the first write (`recovery.new_log`), or now with `at_once`.

        A directory of this name that a failed removal has left is renamed first. Raises Rejected(KAFKA_STORAGE_ERROR) for a disk error, or
        if the name is not valid or belongs to a directory without a partition's files.
        """
        key = (topic, partition)
        assert key not in self.logs, f"{topic}-{partition} exists already"
        # A cluster broker gets names from a controller; they must be safe here.
        if parse_partition_dir(partition_dir_name(topic, partition)) != key:
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic!r} and {partition} are not a valid name of a partition's directory")
        request = self._request(key, topic_id, config)
        try:
            if self._files.exists(request.directory):
                if not self._looks_like_a_partition(request.directory):
                    raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"{request.directory} exists already, and is not a partition's")
                self._directories_to_delete[self._rename(key, DELETE_SUFFIX)] = None
            log = new_log(request)
            if at_once:
                log.segments.active.create_files()
        except OSError as e:
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot create {request.directory}: {e}") from e
        self.failed.pop(key, None)
        self.logs[key] = log
        return log

    def assign_topic_id(self, log: PartitionLog, topic_id: bytes) -> None:
        """Store the topic id in the directory of a partition that was found without one. Raises Rejected(KAFKA_STORAGE_ERROR)."""
        try:
            self._files.write_atomic(log.directory / partition_metadata.FILE_NAME, partition_metadata.encode_metadata(topic_id))
        except OSError as e:
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot record the topic id in {log.directory}: {e}") from e
        log.topic_id = topic_id

    def delete_log(self, topic: str, partition: int) -> None:
        """Remove a partition, even one with a disk error: rename its directory to `…-delete`. The files are removed after
        log.segment.delete.delay.ms. Raises Rejected(KAFKA_STORAGE_ERROR) if the renaming fails."""
        aside = self._remove_and_rename((topic, partition), DELETE_SUFFIX)
        if aside is not None:
            self._directories_to_delete[aside] = None

    def mark_stray(self, topic: str, partition: int) -> None:
        """Rename the directory of a partition that belongs to no topic to `…-stray`. Its files are never removed. Raises
        Rejected(KAFKA_STORAGE_ERROR) if the renaming fails."""
        self._remove_and_rename((topic, partition), STRAY_SUFFIX)

    def _remove_and_rename(self, key: Key, suffix: str) -> Path | None:
        """Remove a partition from `logs` and rename its directory. Return the new path; None if the directory was never created. Raises
        Rejected(KAFKA_STORAGE_ERROR) if the renaming fails."""
        log = self.logs.pop(key, None)
        self.failed.pop(key, None)
        self.first_dirty_offsets.pop(key, None)
        directory = self.path / partition_dir_name(*key)
        if log is not None:
            log.release()
            log.fail(FileNotFoundError(f"{directory} was renamed"))
        try:
            if log is not None and not log.segments.active.is_on_disk and not self._files.exists(directory):
                return None
            return self._rename(key, suffix)
        except OSError as e:
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot rename {directory}: {e}") from e

    def _rename(self, key: Key, suffix: str) -> Path:
        target = self.path / partition_dir_name_with_suffix(*key, self._random_bytes(16), suffix)
        self._files.rename(self.path / partition_dir_name(*key), target)
        self._renamed = True
        return target

    def removal_checkpoint(self) -> Write:
        """Return a function that writes all checkpoints, without the deleted partitions, and makes their directories' renames durable.

        The function logs an error for a checkpoint that cannot be written, because the next checkpoint replaces it, and raises
        `FsyncFailed` if the data directory cannot be synced.
        """
        written = [
            self.recovery_point_checkpoint(),
            self.log_start_checkpoint(),
            self.high_watermark_checkpoint(),
            self.cleaner_checkpoint(),
        ]

        def write() -> None:
            try:
                for checkpoint in written:
                    checkpoint()
            except OSError as e:
                logger.error("the checkpoints in %s still contain removed partitions or records: %s", self.path, e)
            try:
                self._files.sync_dir(self.path)
            except OSError as e:
                raise FsyncFailed(*e.args) from e

        return write

    @property
    def needs_removal_checkpoint(self) -> bool:
        """Whether the caller must run `removal_checkpoint` after the start, before a log grows: a partition's directory was renamed, or a
        checkpoint lists a partition without a directory or counts removed records as synced or clean, because the process was killed before
        it wrote the checkpoints.
        """
        here = self.logs.keys() | self.failed.keys()
        outdated = self._renamed or self._truncations > self._truncations_checkpointed
        return outdated or any(not found.keys() <= here for found in self._found.values())

    def due_deletions(self, now_ms: int) -> Iterator[Write]:
        """Yield functions that remove deleted partitions and files from the disk, once their delay is over. Call each function once.

        A partition's delay (log.segment.delete.delay.ms) starts with the first call of `due_deletions` after its deletion. The delay also
        ends if the clock was set back. A directory whose removal fails is removed after the next start.
        """
        for key in list(self._with_files_to_delete):
            log = self.logs.get(key)
            if log is not None:
                yield from log.due_deletions(now_ms)
            if log is None or not log.files_to_delete:
                self._with_files_to_delete.discard(key)
        self._now_ms = now_ms
        delay_ms = self.settings.log_segment_delete_delay_ms
        for path, known in list(self._directories_to_delete.items()):
            deadline_ms = self._directories_to_delete[path] = now_ms + delay_ms if known is None else known
            if not 0 < deadline_ms - now_ms <= delay_ms:
                del self._directories_to_delete[path]
                yield partial(self._files.remove_tree, path)

    # --- checkpoints -----------------------------------------------------------------------------------------------------------

    def recovery_point_checkpoint(self) -> Write:
        """Return a function that writes the present recovery points to their checkpoint file."""
        return self._checkpoint(checkpoints.RECOVERY_POINT, {key: log.recovery_point for key, log in self.logs.items()})

    def truncation_checkpoint(self) -> Write | None:
        """Return a function that writes the recovery points, the log start offsets and the cleaner's offsets, which a truncation may have
        lowered; None if no log was truncated, also by recovery, since they were written.

        Call it before a truncated log grows. A recovery after a power loss would trust indexes up to the higher recovery point, recovery
        would remove a log that ends below its old start, and the log cleaner would take new records for clean ones (Kafka's
        LogManager.truncateTo).
        """
        truncations = self._truncations
        if truncations == self._truncations_checkpointed:
            return None
        written = [self.recovery_point_checkpoint(), self.log_start_checkpoint(), self.cleaner_checkpoint()]

        def write() -> None:
            for checkpoint in written:
                checkpoint()
            self._truncations_checkpointed = max(self._truncations_checkpointed, truncations)

        return write

    def _log_truncated(self, key: Key, active_base_offset: int) -> None:
        """Lower the log's first dirty offset to the base offset of its active segment, which is never clean
        (LogCleanerManager.maybeTruncateCheckpoint). Require a `truncation_checkpoint`."""
        self._truncations += 1
        if self.first_dirty_offsets.get(key, 0) > active_base_offset:
            self.first_dirty_offsets[key] = active_base_offset

    def log_start_checkpoint(self) -> Write:
        """Return a function that writes the log start offsets. Only logs that start inside their first segment are in the file: for the
        others, the segment's base offset is the log start."""
        starts = {key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset > log.segments.first.base_offset}
        return self._checkpoint(checkpoints.LOG_START, starts)

    def high_watermark_checkpoint(self) -> Write:
        return self._checkpoint(checkpoints.REPLICATION, {key: log.high_watermark for key, log in self.logs.items()})

    def cleaner_checkpoint(self) -> Write:
        return self._checkpoint(checkpoints.CLEANER, self.first_dirty_offsets)

    def _checkpoint(self, name: str, offsets: dict[Key, int]) -> Write:
        """Return a function that writes `offsets` to the checkpoint file `name`. Partitions with a disk error keep the offsets that they
        had in the file at the start.
        """
        number = next(self._checkpoints)
        known_before = self._found.get(name, {})
        offsets = {key: known_before[key] for key in self.failed if key in known_before} | offsets

        def write() -> None:
            with self._checkpoint_lock:
                newest, known = self._written.get(name, (-1, None))
                if number < newest:
                    return
                if known != offsets:  # most checkpoints of idle partitions end here
                    self._files.write_atomic(self.path / name, encode_offsets(dict(sorted(offsets.items()))))
                self._written[name] = number, offsets

        return write

    # --- stop ------------------------------------------------------------------------------------------------------------------

    def close(self, clean: bool = True) -> None:
        """Close all logs and release the lock. If `clean`, first save and sync all logs, and then write the clean-shutdown marker.

        If a log cannot be saved, the error is logged, and the marker is not written.
        """
        try:
            if clean and self.save():
                self.mark_as_clean(self.path)
        except OSError as e:
            logger.error("the shutdown is not clean: %s", e)
        finally:
            for log in self.logs.values():
                log.release()
            self._lock.release()

    def save(self) -> bool:
        """Save and sync all logs and checkpoints; the logs stay open. Return False, without writing the checkpoints, if a log is offline or
        could not be saved. Raises `OSError` if a checkpoint cannot be written."""
        if not self._save_logs():
            return False
        self.recovery_point_checkpoint()()
        self.log_start_checkpoint()()
        self.high_watermark_checkpoint()()
        self.cleaner_checkpoint()()
        return True

    def mark_as_clean(self, directory: Path) -> None:
        """Write the clean-shutdown marker to `directory`: this data directory, or a copy of it that was made right after `save`. Raises
        `OSError`."""
        marker = json.dumps({"version": 0, "brokerEpoch": self.broker_epoch}, separators=(",", ":")).encode()
        self._files.write_atomic(directory / CLEAN_SHUTDOWN, marker)

    def _save_logs(self) -> bool:
        """Save and sync all logs. Return whether each is completely on disk.

        Several threads sync concurrently: one by one, thousands of partitions would exceed a service manager's stop timeout.
        """
        with self._threads(CLOSE_THREADS, "close") as pool:
            results: list[bool] = []
            logs = list(self.logs.values())
            for at in range(0, len(logs), CLOSE_AT_ONCE):
                begun = [(log, ticket) for log in logs[at : at + CLOSE_AT_ONCE] if (ticket := _begin(log)) is not None]
                results += pool.map(_sync, begun)
        closed = all(results) and all(log.recovery_point == log.log_end_offset for log in self.logs.values())
        return closed and not self.failed and not any(log.failure for log in self.logs.values())


def _broker_epoch(marker: bytes) -> int:
    """Return the broker epoch in a clean-shutdown marker, NO_BROKER_EPOCH if it is not JSON or an older Kafka's empty file
    (CleanShutdownFileHandler)."""
    try:
        content = json.loads(marker)
    except ValueError:
        return NO_BROKER_EPOCH
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if isinstance(epoch, int) else NO_BROKER_EPOCH


def _begin(log: PartitionLog) -> FlushTicket | None:
    try:
        return log.close_begin()
    except OSError as e:
        logger.error("%r could not be closed: %s", log, e)
        log.fail(e)
        return None


def _sync(work: tuple[PartitionLog, FlushTicket]) -> bool:
    log, ticket = work
    try:
        ticket.sync()
    except OSError as e:
        logger.error("%r could not be synced: %s", log, e)
        return False
    log.flush_end(ticket)
    return True

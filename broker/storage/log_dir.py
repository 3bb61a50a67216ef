"""A data directory: who may use it, what is in it, and the checkpoint files over all its partitions (Kafka's LogManager).

Rules inside:
* the lock is taken first and given back last; the clean-shutdown marker is removed before anything changes and written after all
  is synced;
* a directory that carries another cluster's or node's id is refused by name, and nothing in it is touched;
* damage is repaired and reported in `findings`; a partition that the disk refuses is left out and named in `failed`; the others are served;
* a checkpoint speaks of the partitions that are here, those that failed included, and of no other: a new topic must not begin with the
  offsets of an older one of its name.
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
from typing import TYPE_CHECKING, Final

from ottla.broker.core.descriptors import most_open_files
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.threads import Threads
from ottla.broker.storage import checkpoint_file as checkpoints
from ottla.broker.storage import meta_properties, partition_metadata
from ottla.broker.storage.checkpoint_file import CorruptCheckpoint, decode_offsets, encode_offsets
from ottla.broker.storage.dir_names import DELETE_SUFFIX, STRAY_SUFFIX, is_deleted, live_name, parse_live, set_aside
from ottla.broker.storage.errors import Damage, FsyncFailed, LogDirRefused
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.flush import FlushTicket
from ottla.broker.storage.meta_properties import MetaProperties, decode_meta, encode_meta, random_id
from ottla.broker.storage.open_files import OpenFiles
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.recovery import OpenRequest, new_log, open_log
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.core.settings import BrokerSettings

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
NO_BROKER_EPOCH: Final = -1
OPEN_SEGMENTS_MAX: Final = 4096
"""Descriptors for segments, and never more than half of those that the process may have: connections and syncs need theirs."""
CLOSE_THREADS: Final = 8
"""Syncs at a time in a clean stop: enough for the file system to join their journal commits."""
CLOSE_AT_ONCE: Final = 64
"""Logs whose syncs hold descriptors at one time in a clean stop."""

_OF_A_PARTITION: Final = re.compile(r"[0-9]{20}[.-]|leader-epoch-checkpoint|partition\.metadata")

Key = tuple[str, int]
Write = Callable[[], None]
"""A change of the directory that may be made on any thread. That of a checkpoint file is left out when a later one was written, or nothing
has changed since the last. Raises `OSError`; what was there stays then."""

logger = logging.getLogger(__name__)


class LogDir:
    """See the module; made by `open`. `logs` has every partition that is served, by (topic, partition)."""

    def __init__(
        self, path: Path, settings: BrokerSettings, now_ms: int, *, files: Files, random_bytes: Callable[[int], bytes], threads: Threads
    ) -> None:
        self.path = path
        self.settings = settings
        self.was_clean = False
        self.previous_broker_epoch = NO_BROKER_EPOCH
        """With which the last broker here stopped cleanly; -1 where it did not, or was in no cluster."""
        self.broker_epoch = NO_BROKER_EPOCH
        """That of this one, for a clean stop to note."""
        self.meta = MetaProperties("", -1, bytes(16))
        self.logs: dict[Key, PartitionLog] = {}
        self.failed: dict[Key, OSError] = {}
        self.cleaned: dict[Key, int] = {}
        """How far the cleaner has come in each log; its own to change, and in a checkpoint as the others."""
        self.findings: list[Damage] = []
        self._now_ms = now_ms
        self._files = files
        self._random_bytes = random_bytes
        self._threads = threads
        self._rng = random.Random(random_bytes(8))
        self._open_files = OpenFiles(min(OPEN_SEGMENTS_MAX, most_open_files() // 2))
        self._doomed: dict[Path, int | None] = {}
        self._with_doomed: set[Key] = set()
        self._checkpoints = itertools.count()
        self._checkpoint_lock = threading.Lock()
        self._written: dict[str, tuple[int, bytes]] = {}
        self._found: dict[str, dict[Key, int]] = {}
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
        """Locks the directory and recovers every partition in it. Raises `LogDirLocked`, `LogDirRefused`."""
        try:
            files.make_dir(path)
        except OSError as e:
            raise LogDirRefused(f"the data directory {path} cannot be made: {e.strerror}") from e
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
                self._doomed[self.path / entry.name] = None
            elif (key := parse_live(entry.name)) is not None:
                self._load_log(key, recovery_points.get(key, 0), log_starts.get(key, 0), high_watermarks.get(key, 0))
        self.cleaned = {key: offset for key, offset in cleaned.items() if key in self.logs}
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
            cluster_id = settings.cluster_id or partition_metadata.encode_uuid(random_id(self._random_bytes))
            self.meta = MetaProperties(cluster_id, settings.node_id, random_id(self._random_bytes))
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
        if self.meta.directory_id == bytes(16):  # of a Kafka before 3.7; a cluster knows directories by their ids
            self.meta = replace(self.meta, directory_id=random_id(self._random_bytes))
            self._files.write_atomic(path, encode_meta(self.meta, self._now_ms))

    def _read_offsets(self, name: str) -> dict[Key, int]:
        path = self.path / name
        try:
            data = self._files.read_bytes(path)
            self._found[name] = decode_offsets(data)
        except FileNotFoundError:
            return {}
        except CorruptCheckpoint as e:
            self.findings.append(Damage(path, f"not usable ({e}); the logs themselves are looked at instead"))
            self.was_clean = self.was_clean and name != checkpoints.RECOVERY_POINT
            return {}
        self._written[name] = -1, data
        return self._found[name]

    def _load_log(self, key: Key, recovery_point: int, log_start: int, high_watermark: int) -> None:
        directory = self.path / live_name(*key)
        try:
            topic_id = self._topic_id(directory)
            if topic_id == partition_metadata.NO_TOPIC_ID and not self._looks_like_a_partition(directory):
                self.findings.append(Damage(directory, "holds no file of a partition's; it is left alone"))
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
        """A directory of somebody's own may have a partition's name (`photos-2024`); an empty one is a new one, cut short by a crash."""
        names = [entry.name for entry in self._files.scan(directory)]
        return not names or any(_OF_A_PARTITION.match(name) for name in names)

    def _topic_id(self, directory: Path) -> bytes:
        path = directory / partition_metadata.FILE_NAME
        try:
            return partition_metadata.decode_metadata(self._files.read_bytes(path))
        except FileNotFoundError:
            self.findings.append(Damage(path, "missing; the partition's topic id is not known"))
        except ValueError as e:
            self.findings.append(Damage(path, f"not usable ({e}); the partition's topic id is not known"))
        return partition_metadata.NO_TOPIC_ID

    def _default_config(self) -> LogConfig:
        """What a log is loaded with until its topic's own configuration is known."""
        settings = self.settings
        return LogConfig(
            index_interval_bytes=settings.log_index_interval_bytes,
            segment_index_bytes=settings.log_index_size_max_bytes,
            segment_bytes=settings.internal_segment_bytes or settings.log_segment_bytes,
            file_delete_delay_ms=settings.log_segment_delete_delay_ms,
        )

    def _request(self, key: Key, topic_id: bytes, config: LogConfig) -> OpenRequest:
        return OpenRequest(
            directory=self.path / live_name(*key),
            topic=key[0],
            partition=key[1],
            topic_id=topic_id,
            config=config,
            now_ms=self._now_ms,
            files=self._files,
            open_files=self._open_files,
            rng=self._rng,
            with_doomed=self._with_doomed,
            producer_expiration_ms=self.settings.producer_id_expiration_ms,
            verifies_transactions=self.settings.transaction_partition_verification_enable,
            of_a_member=self.settings.is_member,
        )

    # --- partitions ------------------------------------------------------------------------------------------------------------

    def create_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig, *, at_once: bool = False) -> PartitionLog:
        """A partition that is not here: its directory is made with its first write (`new_log`), or `at_once`. A directory that a refused
        removal has left goes first. Raises `Rejected`.
        """
        key = (topic, partition)
        assert key not in self.logs, f"{topic}-{partition} is there already"
        if parse_live(live_name(topic, partition)) != key:  # in a cluster the controller names it
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic!r} and {partition} make no name of a partition's directory")
        request = self._request(key, topic_id, config)
        try:
            if self._files.exists(request.directory):
                if not self._looks_like_a_partition(request.directory):
                    raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"{request.directory} is there already, and is no partition's")
                self._doomed[self._rename(key, DELETE_SUFFIX)] = None
            log = new_log(request)
            if at_once:
                log.segments.active.create_files()
        except OSError as e:
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot make {request.directory}: {e}") from e
        self.failed.pop(key, None)
        self.logs[key] = log
        return log

    def name_topic(self, log: PartitionLog, topic_id: bytes) -> None:
        """Notes whose partition this is, in one that was found without a topic id. Raises `Rejected`."""
        try:
            self._files.write_atomic(log.directory / partition_metadata.FILE_NAME, partition_metadata.encode_metadata(topic_id))
        except OSError as e:
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot name the topic of {log.directory}: {e}") from e
        log.topic_id = topic_id

    def delete_log(self, topic: str, partition: int) -> None:
        """Sets a partition, be it a failed one, aside as `-delete`; its files go log.segment.delete.delay.ms later. Raises `Rejected`."""
        aside = self._set_aside((topic, partition), DELETE_SUFFIX)
        if aside is not None:
            self._doomed[aside] = None

    def mark_stray(self, topic: str, partition: int) -> None:
        """Sets aside, under a `-stray` name, a partition that no topic claims. Nothing removes it. Raises `Rejected`."""
        self._set_aside((topic, partition), STRAY_SUFFIX)

    def _set_aside(self, key: Key, suffix: str) -> Path | None:
        """The directory's new name; None where there is no directory yet."""
        log = self.logs.pop(key, None)
        self.failed.pop(key, None)
        self.cleaned.pop(key, None)
        directory = self.path / live_name(*key)
        if log is not None:
            log.release()
            log.fail(FileNotFoundError(f"{directory} was set aside"))
        try:
            if log is not None and not log.segments.active.is_made and not self._files.exists(directory):
                return None
            return self._rename(key, suffix)
        except OSError as e:
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot rename {directory}: {e}") from e

    def _rename(self, key: Key, suffix: str) -> Path:
        target = self.path / set_aside(*key, self._random_bytes(16), suffix)
        self._files.rename(self.path / live_name(*key), target)
        return target

    def removal_checkpoint(self) -> Write:
        """Returns once nothing is left of what was set aside: no checkpoint speaks of it, and no power loss brings its name back.

        Raises `FsyncFailed`. A checkpoint that cannot be written now is with the next ones.
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
                logger.error("the checkpoints in %s still speak of partitions that were removed: %s", self.path, e)
            try:
                self._files.sync_dir(self.path)
            except OSError as e:
                raise FsyncFailed(*e.args) from e

        return write

    def doomed(self, now_ms: int) -> Iterator[Write]:
        """Removals of partitions, and of files of those that are here, whose delay is over (or longer than it can be: the clock went back),
        each to be called once.

        A partition's delay counts from the first call after the deletion. A directory whose removal fails goes after the next start.
        """
        for key in list(self._with_doomed):
            log = self.logs.get(key)
            if log is not None:
                yield from log.doomed(now_ms)
            if log is None or not log.doomed_files:
                self._with_doomed.discard(key)
        self._now_ms = now_ms
        delay_ms = self.settings.log_segment_delete_delay_ms
        for path, known in list(self._doomed.items()):
            deadline_ms = self._doomed[path] = now_ms + delay_ms if known is None else known
            if not 0 < deadline_ms - now_ms <= delay_ms:
                del self._doomed[path]
                yield partial(self._files.remove_tree, path)

    # --- checkpoints -----------------------------------------------------------------------------------------------------------

    def recovery_point_checkpoint(self) -> Write:
        """The offsets of now, as the others; nothing is written before the result is called."""
        return self._checkpoint(checkpoints.RECOVERY_POINT, {key: log.recovery_point for key, log in self.logs.items()})

    def log_start_checkpoint(self) -> Write:
        """Only of logs that start inside their first segment: the others say it by its name."""
        starts = {key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset > log.segments.first.base_offset}
        return self._checkpoint(checkpoints.LOG_START, starts)

    def high_watermark_checkpoint(self) -> Write:
        return self._checkpoint(checkpoints.REPLICATION, {key: log.high_watermark for key, log in self.logs.items()})

    def cleaner_checkpoint(self) -> Write:
        return self._checkpoint(checkpoints.CLEANER, self.cleaned)

    def _checkpoint(self, name: str, offsets: dict[Key, int]) -> Write:
        number = next(self._checkpoints)
        known_before = self._found.get(name, {})
        offsets = {key: known_before[key] for key in self.failed if key in known_before} | offsets

        def write() -> None:
            with self._checkpoint_lock:
                newest, known = self._written.get(name, (-1, b""))
                if number < newest:
                    return
                data = encode_offsets(dict(sorted(offsets.items())))
                if known != data:
                    self._files.write_atomic(self.path / name, data)
                self._written[name] = number, data

        return write

    # --- stop ------------------------------------------------------------------------------------------------------------------

    def close(self, clean: bool = True) -> None:
        """Gives everything back. A clean close saves and syncs all logs first, and says so with the marker unless one of them could not."""
        try:
            if clean and self._close_logs():
                self.recovery_point_checkpoint()()
                self.log_start_checkpoint()()
                self.high_watermark_checkpoint()()
                self.cleaner_checkpoint()()
                marker = json.dumps({"version": 0, "brokerEpoch": self.broker_epoch}, separators=(",", ":")).encode()
                self._files.write_atomic(self.path / CLEAN_SHUTDOWN, marker)
        except OSError as e:
            logger.error("the stop is not clean: %s", e)
        finally:
            for log in self.logs.values():
                log.release()
            self._lock.release()

    def _close_logs(self) -> bool:
        """Syncs take their time side by side: one after the other, thousands of partitions would outlast a service manager's patience."""
        with self._threads(CLOSE_THREADS, "close") as pool:
            results: list[bool] = []
            logs = list(self.logs.values())
            for at in range(0, len(logs), CLOSE_AT_ONCE):
                begun = [(log, ticket) for log in logs[at : at + CLOSE_AT_ONCE] if (ticket := _begin(log)) is not None]
                results += pool.map(_sync, begun)
        closed = all(results) and all(log.recovery_point == log.log_end_offset for log in self.logs.values())
        return closed and not self.failed and not any(log.failure for log in self.logs.values())


def _broker_epoch(marker: bytes) -> int:
    """As Kafka's `CleanShutdownFileHandler`: what it cannot read, an older Kafka's empty file among that, is no epoch."""
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

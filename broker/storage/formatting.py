"""Formats a directory for a cluster node before its first start, as `kafka-storage format` does (Kafka's `Formatter`).

Invariants:
- A directory with meta.properties is formatted: it is rejected or skipped, and never changed.
- meta.properties is written last, so a directory whose formatting was interrupted counts as unformatted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.cluster.raft_records import KRaftVersionFeature, Voter, VoterEndpoint, VotersRecord
from ottla.broker.cluster.release_levels import KRAFT_VERSION, level_records
from ottla.broker.cluster.snapshots import BOOTSTRAP_SNAPSHOT, Snapshot, read_snapshot, write_snapshot
from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID
from ottla.broker.storage import partition_metadata
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.meta_properties import FILE_NAME, MetaProperties, decode_meta, encode_meta
from ottla.broker.storage.partition_metadata import encode_metadata
from ottla.protocol.uuids import random_uuid

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
METADATA_DIRECTORY: Final = "__cluster_metadata-0"


def format_directory(
    path: Path,
    cluster_id: str,
    node_id: int,
    levels: Mapping[str, int],
    now_ms: int,
    *,
    is_controller: bool = False,
    ignore_formatted: bool = False,
    voter_at: Sequence[VoterEndpoint] = (),
    users: Sequence[MetadataRecord] = (),
    files: Files = FILES,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> bool:
    """Format the directory `path`. Return False if it was formatted already for this node and cluster, and `ignore_formatted` is set.

    A controller (`is_controller`) gets `levels` (feature levels) and `users` (credential records) as the first records of its log. With
    `voter_at`, this controller's listeners, the node becomes the only voter of a dynamic quorum (KIP-853, `--standalone`). Raises
    `LogDirRefused` if the directory belongs to another node or cluster, or is formatted and `ignore_formatted` is not set.
    """
    meta_path = path / FILE_NAME
    try:
        if files.exists(meta_path):
            _check(meta_path, decode_meta(files.read_bytes(meta_path)), cluster_id, node_id)
            if not ignore_formatted:
                raise LogDirRefused(f"Log directory {path} is already formatted. Use --ignore-formatted to leave it as it is.")
            return False
        files.make_dir(path)
        directory_id = random_uuid(random_bytes)
        if is_controller:
            bootstrap = Snapshot(now_ms, [*level_records(levels), *users], levels.get(KRAFT_VERSION, 0))
            if voter_at:
                bootstrap.voters = VotersRecord(0, [Voter(node_id, directory_id, list(voter_at), KRaftVersionFeature(0, 1))])
            files.make_dir(path / METADATA_DIRECTORY)
            files.write_atomic(path / METADATA_DIRECTORY / partition_metadata.FILE_NAME, encode_metadata(METADATA_TOPIC_ID))
            written = b"".join(write_snapshot(bootstrap, 0, levels[METADATA_VERSION], now_ms))
            files.write_atomic(path / METADATA_DIRECTORY / BOOTSTRAP_SNAPSHOT.file_name, written)
        files.write_atomic(meta_path, encode_meta(MetaProperties(cluster_id, node_id, directory_id), now_ms))
    except OSError as e:
        raise LogDirRefused(f"{e.filename or path} cannot be written: {e.strerror}") from e
    except ValueError as e:
        raise LogDirRefused(f"{meta_path}: {e}") from e
    return True


def bootstrap_records(files: Files, path: Path) -> list[MetadataRecord]:
    """Return the records with which the directory was formatted; empty if there are none. The first controller appends them to a new
    metadata log. They are in `bootstrap.checkpoint` (Kafka before 4.4) or in the snapshot at offset 0 (4.4). Raises ProtocolError if that
    file is corrupt, and OSError."""
    for file in (path / BOOTSTRAP_FILE, path / METADATA_DIRECTORY / BOOTSTRAP_SNAPSHOT.file_name):
        if files.exists(file) and (records := read_snapshot(files.read_bytes(file)).records):
            return records
    return []


def _check(path: Path, meta: MetaProperties, cluster_id: str, node_id: int) -> None:
    if meta.cluster_id != cluster_id:
        raise LogDirRefused(f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {meta.cluster_id}")
    if meta.node_id != node_id:
        raise LogDirRefused(f"Stored node id {meta.node_id} doesn't match previous node id {node_id} in {path}.")

"""Makes a directory a broker's of one cluster before its first start, as `kafka-storage format` does (Kafka's `Formatter`).

Rules that hold inside:
- A directory with meta.properties is formatted: it is refused or left alone, and never changed.
- bootstrap.checkpoint is there before meta.properties is, so that what is cut short in between is not formatted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.release_levels import level_records
from ottla.broker.cluster.snapshots import Snapshot, write_snapshot
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.meta_properties import FILE_NAME, MetaProperties, decode_meta, encode_meta, random_id

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"


def format_directory(
    path: Path,
    cluster_id: str,
    node_id: int,
    levels: Mapping[str, int],
    now_ms: int,
    *,
    ignore_formatted: bool = False,
    files: Files = FILES,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> bool:
    """Returns False where the directory was formatted already, for the same node and cluster. `levels` of features are for controllers.

    Raises `LogDirRefused` where it is another's, or formatted and not to be ignored.
    """
    meta_path = path / FILE_NAME
    try:
        if files.exists(meta_path):
            _check(meta_path, decode_meta(files.read_bytes(meta_path)), cluster_id, node_id)
            if not ignore_formatted:
                raise LogDirRefused(f"Log directory {path} is already formatted. Use --ignore-formatted to leave it as it is.")
            return False
        files.make_dir(path)
        bootstrap = Snapshot(0, list(level_records(levels)))
        files.write_atomic(path / BOOTSTRAP_FILE, b"".join(write_snapshot(bootstrap, 0, levels[METADATA_VERSION], now_ms)))
        files.write_atomic(meta_path, encode_meta(MetaProperties(cluster_id, node_id, random_id(random_bytes)), now_ms))
    except OSError as e:
        raise LogDirRefused(f"{e.filename or path} cannot be written: {e.strerror}") from e
    except ValueError as e:
        raise LogDirRefused(f"{meta_path}: {e}") from e
    return True


def _check(path: Path, meta: MetaProperties, cluster_id: str, node_id: int) -> None:
    if meta.cluster_id != cluster_id:
        raise LogDirRefused(f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {meta.cluster_id}")
    if meta.node_id != node_id:
        raise LogDirRefused(f"Stored node id {meta.node_id} doesn't match previous node id {node_id} in {path}.")

"""`ottla serve --on-copy-of DIR`: copies a data directory and changes the options so that the copy is served."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ottla.broker.cli.common import CliError
from ottla.broker.cli.forking import fork_directory, summary
from ottla.broker.cli.metadata_dir import METADATA_DIR, read_image
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings_load import SettingsError, parse_assignments, source_of
from ottla.broker.layout import brokers_in
from ottla.broker.process import StartError
from ottla.broker.storage.as_of import AtOffset, text_of, truncate_at_moment
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.fork import ForkRefused, node_directories
from ottla.broker.storage.meta_properties import FILE_NAME, MetaProperties, decode_meta
from ottla.protocol.records.errors import RecordsError

_AT_OFFSET: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,9})@(?P<offset>\d{1,18})")


@contextmanager
def on_copy(options: argparse.Namespace) -> Iterator[None]:
    """Fork (copy) the directory of `--on-copy-of`, and change `options` so that the copy is served inside the context; remove a temporary
    copy at the end.

    Raises SettingsError for options that contradict each other or the directory, and StartError if the directory cannot be copied.
    """
    if options.on_copy_of is None:
        given = "--alone" if options.alone else "--as-of"
        raise SettingsError(f"{given} goes with --on-copy-of DIR, the directory of one node{' of a cluster' if options.alone else ''}")
    source: Path = options.on_copy_of
    moment = None if options.as_of is None else parsed_moment(options.as_of)
    try:
        directories = node_directories(source)
        if directories == [source]:
            _as_one_node(options, source)
        else:
            _as_cluster(options, source, directories)
        with _place(options, source) as target:
            report = fork_directory(source, target)
            print(f"ottla serve: {summary(report)}", file=sys.stderr)
            if moment is not None:
                options.moment_ms = truncate_at_moment(target, moment, Clock().now_ms())
                print(f"ottla serve: cut at {text_of(options.moment_ms)}, read only", file=sys.stderr)
            options.data_dir = str(target)
            yield
    except (ForkRefused, LogDirRefused, RecordsError) as refused:
        raise StartError(str(refused)) from refused


def parsed_moment(text: str) -> int | AtOffset:
    """Parse the value of `--as-of`, the point up to which a log is served: Unix time in ms, ISO 8601 (UTC unless it has a zone), or an
    offset such as `orders-0@1234`. Raises SettingsError for any other text."""
    if text.isdecimal():
        return int(text)
    if found := _AT_OFFSET.fullmatch(text):
        return AtOffset(found["topic"], int(found["partition"]), int(found["offset"]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(f"--as-of {text}: use a time such as 2026-01-31T12:00Z, Unix time in ms, or orders-0@1234") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


@contextmanager
def _place(options: argparse.Namespace, source: Path) -> Iterator[Path]:
    if options.data_dir is not None:
        yield Path(options.data_dir)
        return
    source = source.absolute()
    try:
        holder = Path(tempfile.mkdtemp(prefix=f"{source.name}-fork-", dir=source.parent))
    except OSError as error:
        problem = f"no directory can be created beside {source} ({error.strerror}): name one with --data-dir"
        raise StartError(problem) from error
    try:
        yield holder / "data"
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def _as_one_node(options: argparse.Namespace, source: Path) -> None:
    """Change `options` so that a standalone node with the original's node id serves the copy. Raises SettingsError if other options
    contradict this, or `source` is a cluster node's directory and --alone is missing; StartError if its meta.properties cannot be read."""
    if options.brokers is not None:
        raise SettingsError(f"{source} is the directory of one node: leave out --brokers")
    assignments = parse_assignments(options.assignments)
    if source_of("process.roles", assignments, os.environ, options.config) is not None:
        raise SettingsError("--on-copy-of starts a standalone node, which must not join a cluster: leave out process.roles")
    meta = _meta(source)
    if not options.alone and (source / METADATA_DIR).is_dir():
        _check_is_whole(source, meta)
    options.assignments.append(f"node.id={meta.node_id}")


def _check_is_whole(source: Path, meta: MetaProperties) -> None:
    try:
        brokers = sorted(read_image(source).brokers)
    except CliError:  # being written, or torn by a crash: the start recovers it, or says what is wrong
        return
    if brokers not in ([], [meta.node_id]):
        listed = ", ".join(map(str, brokers))
        raise SettingsError(
            f"{source} is the directory of node {meta.node_id} of a cluster with the brokers {listed}: "
            "add --alone to serve what this node has"
        )


def _as_cluster(options: argparse.Namespace, source: Path, directories: list[Path]) -> None:
    """Change `options` so that the copy is served by as many brokers as the original's `ottla serve --brokers` had. Raises SettingsError if
    the options contradict this."""
    if options.as_of is not None:
        raise SettingsError(f"--as-of is for one node: name its directory, such as {directories[0]}, with --alone")
    if options.alone:
        raise SettingsError(f"{source} is the directory of several nodes: name the one to serve alone, such as {directories[0]}")
    count = brokers_in(source, directories)
    if count is None:
        raise SettingsError(f"{source} is not the directory of `ottla serve --brokers`: serve the copy of one node with --alone")
    if options.brokers not in (None, count):
        raise SettingsError(f"{source} has {count} brokers: leave out --brokers {options.brokers}")
    options.brokers = count


def _meta(directory: Path) -> MetaProperties:
    try:
        return decode_meta((directory / FILE_NAME).read_bytes())
    except (OSError, ValueError) as error:
        raise StartError(f"{directory / FILE_NAME}: {error}") from error

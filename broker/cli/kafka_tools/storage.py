"""`kafka-storage`: generates cluster ids, formats data directories as `ottla format` does, and describes them (Kafka's StorageTool)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ottla.broker.cli.kafka_image.plan import adapted
from ottla.broker.cli.kafka_tools.options import ToolParser
from ottla.broker.cluster.release_levels import UnknownLevel
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings_load import SettingsError, data_dir, load, read_properties
from ottla.broker.first_start import Formatting, format_node
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.meta_properties import FILE_NAME, decode_meta
from ottla.protocol.uuids import encode_uuid, random_uuid


def parser() -> ToolParser:
    """Return the parser of the options of `kafka-storage`."""
    made = ToolParser("kafka-storage", "The Kafka storage tool.")
    commands = made.add_subparsers(dest="command", required=True)
    commands.add_parser("random-uuid")
    info = commands.add_parser("info")
    formatting = commands.add_parser("format")
    for each in (info, formatting):
        each.add_argument("--config", "-c", type=Path, required=True)
    formatting.add_argument("--cluster-id", "-t", required=True)
    formatting.flag("--ignore-formatted", "-g")
    formatting.flag("--standalone", "-s")
    formatting.flag("--no-initial-controllers", "-N")
    formatting.add_argument("--initial-controllers", "-I")
    formatting.add_argument("--release-version", "-r")
    formatting.listed("--feature", "-f")
    formatting.listed("--add-scram", "-S")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `kafka-storage` with the arguments `argv`; return its exit code."""
    options = parser().parse_args(argv)
    if options.command == "random-uuid":
        print(encode_uuid(random_uuid(os.urandom)))
        return 0
    try:
        given = read_properties(options.config)
        adapted(given)
        settings = load({}, os.environ, None, of_image=given, tolerant=True).settings
        if options.command == "info":
            return _info(data_dir(settings))
        formatting = Formatting(
            ignore_formatted=options.ignore_formatted,
            release_version=options.release_version,
            features=options.feature,
            standalone=options.standalone,
            no_initial_controllers=options.no_initial_controllers,
            initial_controllers=options.initial_controllers,
            scram=options.add_scram,
        )
        print(format_node(settings, options.cluster_id, Clock().now_ms(), formatting))
    except (SettingsError, LogDirRefused, UnknownLevel) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _info(directory: Path) -> int:
    path = directory / FILE_NAME
    try:
        meta = decode_meta(path.read_bytes())
    except FileNotFoundError:
        print(f"Found problem:\n  {directory} is not formatted.\n")
        return 1
    except (OSError, ValueError) as error:
        print(f"Found problem:\n  {path}: {error}\n")
        return 1
    print(f"Found log directory:\n  {directory}\n")
    fields = f"cluster.id={meta.cluster_id}, directory.id={encode_uuid(meta.directory_id)}, node.id={meta.node_id}, version=1"
    print(f"Found metadata: {{{fields}}}\n")
    return 0

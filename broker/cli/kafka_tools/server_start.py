"""`kafka-server-start FILE [--override NAME=VALUE]…`: serves with the settings of a file, as Kafka's script of that name does."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ottla.broker.cli.kafka_image.plan import adapted
from ottla.broker.cli.kafka_image.program import EXIT_USAGE, options_of
from ottla.broker.cli.kafka_tools.options import ToolParser
from ottla.broker.cli.serve import KafkaReplacement
from ottla.broker.cli.serve import main as serve
from ottla.broker.core.settings_load import SettingsError, read_properties


def parser() -> ToolParser:
    """Return the parser of the options of `kafka-server-start`."""
    made = ToolParser("kafka-server-start", "Start a broker with the settings of a file.")
    made.add_argument("file", type=Path, metavar="server.properties")
    made.listed("--override", about="NAME=VALUE, which overrides the file")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `kafka-server-start` with the arguments `argv`; return its exit code."""
    options = parser().read(argv)
    try:
        settings, more = read_properties(options.file), options_of(os.environ)
        warnings = adapted(settings)
    except SettingsError as error:
        print(f"kafka-server-start: {error}", file=sys.stderr)
        return EXIT_USAGE
    for warning in warnings:
        print(f"===> {warning}", flush=True)
    topics = os.environ.get("KAFKA_CREATE_TOPICS", "").replace(",", " ").split()
    given = [*(f"--topic={item}" for item in topics), *(f"--set={item}" for item in options.override)]
    return serve([*given, *more], KafkaReplacement(settings))

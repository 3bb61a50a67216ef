"""Kafka's command-line tools under their own names, with the options that health checks, init containers and people use.

`ottla kafka-topics …` runs one anywhere; the image has a link for each name, with and without `.sh`. Rules that hold here:
- Options, exit codes and the lines that scripts look for are Kafka's (4.4.0). An unsupported option is rejected by name.
- A tool waits for a cluster that cannot be reached yet, as Kafka's does; a minute by default.
- Typer and Rich are not imported: a health check is a new process every few seconds.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Final, TextIO

from ottla.protocol.printable import printable

_HERE: Final = "ottla.broker.cli.kafka_tools"
TOOLS: Final[Mapping[str, str]] = {
    "kafka-topics": f"{_HERE}.topics",
    "kafka-configs": f"{_HERE}.configs",
    "kafka-acls": f"{_HERE}.acls",
    "kafka-consumer-groups": f"{_HERE}.consumer_groups",
    "kafka-get-offsets": f"{_HERE}.get_offsets",
    "kafka-console-producer": f"{_HERE}.console_producer",
    "kafka-console-consumer": f"{_HERE}.console_consumer",
    "kafka-broker-api-versions": f"{_HERE}.broker_api_versions",
    "kafka-storage": f"{_HERE}.storage",
    "kafka-server-start": f"{_HERE}.server_start",
    "zookeeper-server-start": f"{_HERE}.zookeeper",
    "cub": f"{_HERE}.utility_belt",
    "ub": f"{_HERE}.utility_belt",
    "kafka-image": "ottla.broker.cli.kafka_image.program",
}
"""The module of each tool. The module's function `main` takes the tool's arguments and returns the exit code."""
_PRINTING_NAMES: Final = frozenset(
    {"kafka-topics", "kafka-configs", "kafka-acls", "kafka-consumer-groups", "kafka-get-offsets", "kafka-broker-api-versions"}
)
"""The tools whose output is escaped, because they print names that come from brokers. The console producer and consumer are not here,
because they print records' bytes unchanged."""


def named(program: str) -> str | None:
    """Return the name of the Kafka tool that the path `program` ends in (`kafka-topics`, also with `.sh`); None if it is no tool. The image
    has a link to `ottla` for each tool."""
    name = Path(program).name.removesuffix(".sh")
    return name if name in TOOLS else None


def run(tool: str, argv: Sequence[str]) -> int:
    """Run the Kafka tool `tool`, a key of TOOLS, with the arguments `argv`; return its exit code. Control characters in its output are
    escaped, except in records that a console tool prints."""
    main: Callable[[Sequence[str]], int] = import_module(TOOLS[tool]).main
    if tool not in _PRINTING_NAMES:
        return main(argv)
    with redirect_stdout(_Printable(sys.stdout)), redirect_stderr(_Printable(sys.stderr)):
        return main(argv)


class _Printable(io.TextIOBase):
    """A stream that escapes control characters, so that names from a broker cannot control the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(printable(text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

"""Runs Apache Kafka's own tools against a running broker, and checks their exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Protocol

from client_compat.kafka.tools import Done, Tools


class Bootstrap(Protocol):
    """The interface of a broker or cluster that has bootstrap servers."""

    @property
    def bootstrap(self) -> str: ...


def good(done: Done) -> str:
    """Assert that a finished tool succeeded, and return its output."""
    assert done.code == 0, f"{done.out}\n{done.err}"
    assert "Exception" not in done.err, done.err
    return done.out


def run(tools: Tools, broker: Bootstrap, tool: str, *arguments: str, text: str = "") -> str:
    """Run a tool that must succeed; return its output."""
    return good(tools.run(tool, "--bootstrap-server", broker.bootstrap, *arguments, text=text))


def refused(tools: Tools, broker: Bootstrap, tool: str, *arguments: str) -> str:
    """Run a tool that must fail; return its output."""
    done = tools.run(tool, "--bootstrap-server", broker.bootstrap, *arguments)
    assert done.code == 1, done.out
    return done.out + done.err


def dumped_metadata(tools: Tools, path: Path) -> str:
    """Return what Kafka's dump prints of a segment of a metadata log or of a snapshot."""
    return good(tools.run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(path)))


def metadata_records(dumped: str) -> list[dict[str, Any]]:
    """Return the records of the metadata in what `dumped_metadata` returned, with the keys `type`, `version` and `data`."""
    return [json.loads(found) for found in re.findall(r'payload: (\{"type":"[A-Z_]+","version":.*\})', dumped)]


def create(tools: Tools, broker: Bootstrap, topic: str, partitions: int = 1) -> None:
    run(tools, broker, "kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions))


def table(output: str, first: str) -> list[dict[str, str]]:
    """Parse the rows under the header that begins with the column `first`; lines of another length are ignored."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    head = next(index for index, line in enumerate(lines) if line[0] == first)
    return [dict(zip(lines[head], line, strict=True)) for line in lines[head + 1 :] if len(line) == len(lines[head])]

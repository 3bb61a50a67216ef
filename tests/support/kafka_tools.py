"""Apache Kafka's own tools against a running broker: short forms that see to it that a tool ended well."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from client_compat.kafka.tools import Done, Tools

SHELL_TRIES = 10


class Bootstrap(Protocol):
    """Something that serves."""

    @property
    def bootstrap(self) -> str: ...


def good(done: Done) -> str:
    """Its output; it must have ended well."""
    assert done.code == 0, f"{done.out}\n{done.err}"
    assert "Exception" not in done.err, done.err
    return done.out


def run(tools: Tools, broker: Bootstrap, tool: str, *arguments: str, text: str = "") -> str:
    """The output of a tool at the broker; it must end well."""
    return good(tools.run(tool, "--bootstrap-server", broker.bootstrap, *arguments, text=text))


def refused(tools: Tools, broker: Bootstrap, tool: str, *arguments: str) -> str:
    """All that a tool says that ends with an error."""
    done = tools.run(tool, "--bootstrap-server", broker.bootstrap, *arguments)
    assert done.code == 1, done.out
    return done.out + done.err


def metadata_shell(tools: Tools, path: Path, look: str, wanted: str) -> str:
    """What it shows of a metadata log or snapshot in a directory that nobody uses. It may show something before it has read all: it is
    asked again until `wanted` is in that."""
    shown = ""
    for _ in range(SHELL_TRIES):
        shown = good(tools.run("kafka-metadata-shell", "--snapshot", str(path), *look.split()))
        if wanted in shown:
            return shown
    raise AssertionError(f"{look} shows {shown!r} of {path}")


def create(tools: Tools, broker: Bootstrap, topic: str, partitions: int = 1) -> None:
    run(tools, broker, "kafka-topics", "--create", "--topic", topic, "--partitions", str(partitions))


def table(told: str, first: str) -> list[dict[str, str]]:
    """The rows under the head line that begins with the column `first`, by the head's names; lines of another length are no rows."""
    lines = [line.split() for line in told.splitlines() if line.strip()]
    head = next(index for index, line in enumerate(lines) if line[0] == first)
    return [dict(zip(lines[head], line, strict=True)) for line in lines[head + 1 :] if len(line) == len(lines[head])]

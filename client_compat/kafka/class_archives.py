"""Class data sharing (CDS) archives for Apache Kafka's nodes and tools: a JVM maps the archive instead of loading and verifying the
classes.

With an archive, a node's start takes two thirds of the processor time, and a tool half (measured with Java 17). `make test` makes the
archives once, beside the jars. A JVM with other jars or another version ignores them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from client_compat.kafka.jars import CACHE, KafkaMissing, default_version
from client_compat.kafka.reference import SMALL_JVM, ReferenceBroker, class_archive, java_command
from client_compat.kafka.tools import MAIN_CLASSES
from client_compat.support import locks
from client_compat.support.brokers import HOST, BrokerFailed

NODE, TOOL = "kafka.Kafka", MAIN_CLASSES["kafka-configs"]
TIMEOUT_S = 300.0


def make(version: str) -> None:
    """Make the class data sharing archives of Kafka's node and of its tools, if one is missing.

    Raises `KafkaMissing` if Apache Kafka is not available, `BrokerFailed` if its broker does not start or stop, or
    subprocess.TimeoutExpired if a tool takes too long.
    """
    with locks.locked(CACHE / "archives.lock"):
        node, tool = class_archive(version, NODE), class_archive(version, TOOL)
        if node.exists() and tool.exists():
            return
        for archive in (node, tool):
            archive.unlink(missing_ok=True)  # a JVM that uses an archive does not write one
        print(f"Making archives of Apache Kafka {version}'s classes (once)", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=CACHE) as name:
            directory = Path(name)
            with ReferenceBroker(directory / "kafka", version=version, jvm=_making(directory / node.name)) as broker:
                asks = ("--bootstrap-server", f"{HOST}:{broker.port}", "--describe", "--entity-type", "users")
                command = java_command(version, TOOL, *asks, jvm=_making(directory / tool.name))
                subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
                broker.broker.stop(TIMEOUT_S)  # the archive is written at the end
            for archive in (node, tool):
                if (directory / archive.name).exists():
                    (directory / archive.name).replace(archive)


def _making(archive: Path) -> tuple[str, ...]:
    return (*SMALL_JVM, f"-XX:ArchiveClassesAtExit={archive}")


if __name__ == "__main__":
    try:
        make(default_version())
    except (KafkaMissing, BrokerFailed, subprocess.TimeoutExpired) as error:
        print(f"There are none, and Kafka starts slower: {error}", file=sys.stderr)

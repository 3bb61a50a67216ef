"""The commands that start the sample programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from client_compat.kafka.compiled import compiled
from client_compat.kafka.jars import default_version
from client_compat.kafka.reference import java_command
from client_compat.samples.mistakes import Role

JAVA: Final = "java"
READERS_AND_WRITERS: Final[tuple[Role, ...]] = ("producer", "stream", "consumer")
CLIENTS: Final[Mapping[str, tuple[Role, ...]]] = {
    "aiokafka": READERS_AND_WRITERS,
    "confluent-kafka": (*READERS_AND_WRITERS, "share-consumer"),
    "kafka-python": READERS_AND_WRITERS,
    JAVA: ("share-consumer",),
}
"""The roles (such as producer or stream) for which there is a sample program, by client library."""
_MODULES: Final = {"aiokafka": "aiokafka", "confluent-kafka": "confluent", "kafka-python": "kafka_python"}


def command_of(client: str, role: Role) -> Sequence[str]:
    """Return the command that starts a client's sample program. Raises KafkaMissing for Java's program if Kafka's jars or a JDK are
    missing."""
    if client == JAVA:
        quiet = {"org.slf4j.simpleLogger.defaultLogLevel": "error"}
        return java_command(default_version(), "ShareWorker", properties=quiet, classes=compiled("ShareWorker", Path(__file__).parent))
    return [sys.executable, "-m", f"client_compat.samples.{_MODULES[client]}_{role.replace('-', '_')}"]

"""Apache Kafka's own controller in a Java process, which executes one order after the other (`client_compat/kafka/ControllerJudge.java`).

The controller has a metadata log in memory, and a clock that only orders advance. The program is compiled once into the directory of
Kafka's jars.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any, NamedTuple, TypeAlias

from client_compat.kafka.compiled import compiled
from client_compat.kafka.jars import jars, java
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.image_delta import ImageDelta
from ottla.broker.cluster.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from ottla.broker.cluster.record_frames import decode_record
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.registry import response_class
from ottla.protocol.schema import Message, decode, encode

MAIN_CLASS = "org.apache.kafka.controller.ControllerJudge"
CLUSTER_ID = "judged-cluster-of-kafka"
NODE_ID = 3000
START_MS = 1_000_000
SESSION_MS = 9_000
FIRST_OFFSET = 1
"""The offset of the first record that Kafka's controller applies. Offset 0 has the leader's first record, which is a control record and
ignored."""
RESPONSE_TIMEOUT_S = 60
JVM_OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
)
MARKS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


class Start(NamedTuple):
    """An order to start a new controller, which bootstraps an empty log with these features; `settings` are its configuration."""

    features: Mapping[str, int]
    settings: Mapping[str, str]


class Request(NamedTuple):
    """An order to send a request in one version. `draw` replaces Kafka's random numbers: a random number below `bound` is `draw` %
    `bound`."""

    message: Message
    version: int
    draw: int = 0


class Advance(NamedTuple):
    """An order to advance the clock."""

    milliseconds: int


class Task(NamedTuple):
    """An order to run one timer of the controller once: `fence`, `elect-preferred` or `elect-unclean`."""

    name: str


Order: TypeAlias = Start | Request | Advance | Task


@dataclass
class Answer:
    """The result of an order (a request, a clock advance or a timer): record frames, and the response to a request. `more`: a timer wants
    to run again at once."""

    records: Sequence[bytes] = ()
    response: Message | None = None
    more: bool = False
    faults: Sequence[str] = ()

    def decoded(self) -> list[MetadataRecord]:
        """The order's metadata records, decoded."""
        return [decode_record(record)[0] for record in self.records]


@dataclass
class Known:
    """The state of Kafka's controller on which later steps depend: the metadata image, the brokers' sessions and the time, after the orders
    so far."""

    image: MetadataImage = field(default_factory=MetadataImage)
    end_offset: int = FIRST_OFFSET
    now_ms: int = START_MS
    contacts: dict[tuple[int, int], int] = field(default_factory=dict)
    """The time in ms of the last heartbeat, by broker id and broker epoch. An entry is removed when the broker is fenced for missing
    heartbeats."""
    cleared: set[bytes] = field(default_factory=set)
    """The ids of topics whose eligible leader replicas were cleared although there were some."""

    def learn(self, order: Order, answer: Answer) -> None:
        """Update the state with the result of an order (a request, a clock advance or a timer)."""
        match order:
            case Advance(milliseconds):
                self.now_ms += milliseconds
            case Request(BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch)):
                self.contacts[broker_id, epoch] = self.now_ms
            case Task("fence") if self.silent():
                del self.contacts[self.silent()[0]]
        delta = ImageDelta(self.image)
        for record in answer.decoded():
            if isinstance(record, ClearElrRecord):
                self.cleared.update(self._eligible(record.topic_name))
            if not isinstance(record, MARKS):
                delta.apply(record)
        self.image = delta.finish()
        self.end_offset += len(answer.records)

    def _eligible(self, topic_name: str) -> Iterator[bytes]:
        for topic in self.image.topics.values():
            if topic_name in {"", topic.name} and any(partition.elr for partition in topic.partitions.values()):
                yield topic.topic_id

    def silent(self) -> list[tuple[int, int]]:
        """Return the brokers whose last heartbeat is older than the session timeout."""
        return [contact for contact, at_ms in self.contacts.items() if at_ms + SESSION_MS < self.now_ms]


class KafkaController:
    """The Java process with Kafka's controller, used as a context manager. Raises `KafkaMissing` if it cannot run here."""

    def __init__(self) -> None:
        classpath = f"{compiled('ControllerJudge')}{os.pathsep}{jars()}/*"
        argv = [java(), *JVM_OPTIONS, "-cp", classpath, MAIN_CLASS]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by __exit__
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        assert self._process.stdout is not None
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def __enter__(self) -> KafkaController:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        for end in (self._process.stdin, self._process.stdout, self._errors):
            if end is not None:
                end.close()

    def execute(self, order: Order) -> Answer:
        """Let Kafka's controller execute an order (a request, a clock advance or a timer), and return the result. Raises RuntimeError if
        the process gives no result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(as_json(order)) + "\n")
        self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=RESPONSE_TIMEOUT_S)
        except queue.Empty:
            line = ""
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"Kafka's controller gave no answer to {order}: {self._errors.read()}")
        result = json.loads(line)
        response = None
        if isinstance(order, Request):
            response = decode(response_class(order.message.API_KEY), bytes.fromhex(result["response"]), order.version)
        records = [bytes.fromhex(record) for record in result["records"]]
        return Answer(records, response, result.get("more", False), result.get("faults", ()))

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self._lines.put(line)
        self._lines.put("")


def as_json(order: Order) -> dict[str, Any]:
    """Convert an order to a line of JSON, the input of the Java process."""
    match order:
        case Start(features, settings):
            return {"do": "start", "features": dict(features), "settings": dict(settings), "first": FIRST_OFFSET}
        case Request(message, version, draw):
            body = encode(message, version).hex()
            return {"do": "request", "key": message.API_KEY, "version": version, "body": body, "draw": draw}
        case Advance(milliseconds):
            return {"do": "advance", "ms": milliseconds}
        case Task(name):
            return {"do": "task", "name": name}

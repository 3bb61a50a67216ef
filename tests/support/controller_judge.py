"""Apache Kafka's own controller in a Java process, asked one order after the other: `client_compat/kafka/ControllerJudge.java` is it.

A controller decides over a metadata log in memory, and on a clock that stands until it is moved. What it is made of is compiled once into
the directory of Kafka's jars.
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
"""A leader's first record is a control record, which is no concern of the controller's."""
ANSWER_TIMEOUT_S = 60
JVM_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
MARKS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


class Start(NamedTuple):
    """A new controller, which bootstraps an empty log with these features; `settings` are of its configuration file."""

    features: Mapping[str, int]
    settings: Mapping[str, str]


class Ask(NamedTuple):
    """A request in a version. `draw` is what every random number of it is made of: n % bound."""

    message: Message
    version: int
    draw: int = 0


class Advance(NamedTuple):
    """The clock moves."""

    milliseconds: int


class Task(NamedTuple):
    """What a timer of the controller does, once: `fence`, `elect-preferred` or `elect-unclean`."""

    name: str


Order: TypeAlias = Start | Ask | Advance | Task


@dataclass
class Answer:
    """What came of an order: frames of records, the response to a request; `more` is a task's wish to run again at once."""

    records: Sequence[bytes] = ()
    response: Message | None = None
    more: bool = False
    faults: Sequence[str] = ()

    def decoded(self) -> list[MetadataRecord]:
        """The records."""
        return [decode_record(record)[0] for record in self.records]


@dataclass
class Known:
    """What Kafka's controller has decided so far."""

    image: MetadataImage = field(default_factory=MetadataImage)
    end_offset: int = FIRST_OFFSET
    now_ms: int = START_MS
    contacts: dict[tuple[int, int], int] = field(default_factory=dict)
    """By broker and epoch when it beat last; until it is fenced for its silence."""
    cleared: set[bytes] = field(default_factory=set)
    """Topics that had eligible leader replicas when these were cleared."""

    def learn(self, order: Order, answer: Answer) -> None:
        """Adds what came of an order."""
        match order:
            case Advance(milliseconds):
                self.now_ms += milliseconds
            case Ask(BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch)):
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
        """Who beat last before the last session's time began."""
        return [contact for contact, at_ms in self.contacts.items() if at_ms + SESSION_MS < self.now_ms]


class ControllerJudge:
    """One Java process; a context manager. Raises `KafkaMissing` where there cannot be one."""

    def __init__(self) -> None:
        classpath = f"{compiled('ControllerJudge')}{os.pathsep}{jars()}/*"
        options = [
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        ]
        argv = [java(), *options, "-cp", classpath, MAIN_CLASS]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by __exit__
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        assert self._process.stdout is not None
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def __enter__(self) -> ControllerJudge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        for end in (self._process.stdin, self._process.stdout, self._errors):
            if end is not None:
                end.close()

    def carry_out(self, order: Order) -> Answer:
        """What comes of the order. Raises RuntimeError when the process gives none."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(as_json(order)) + "\n")
        self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=ANSWER_TIMEOUT_S)
        except queue.Empty:
            line = ""
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"Kafka's controller gave no answer to {order}: {self._errors.read()}")
        told = json.loads(line)
        response = None
        if isinstance(order, Ask):
            response = decode(response_class(order.message.API_KEY), bytes.fromhex(told["response"]), order.version)
        records = [bytes.fromhex(record) for record in told["records"]]
        return Answer(records, response, told.get("more", False), told.get("faults", ()))

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            self._lines.put(line)
        self._lines.put("")


def as_json(order: Order) -> dict[str, Any]:
    """The order as the process reads it."""
    match order:
        case Start(features, settings):
            return {"do": "start", "features": dict(features), "settings": dict(settings), "first": FIRST_OFFSET}
        case Ask(message, version, draw):
            body = encode(message, version).hex()
            return {"do": "request", "key": message.API_KEY, "version": version, "body": body, "draw": draw}
        case Advance(milliseconds):
            return {"do": "advance", "ms": milliseconds}
        case Task(name):
            return {"do": "task", "name": name}

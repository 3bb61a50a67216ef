"""A Kafka Streams application in a streams group, on any broker: its topics, its input, and the output that it must write."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from client_compat.streams.flights import Key
from client_compat.streams.member import StreamsMember
from client_compat.streams.outputs import PARTITIONS, Outputs, read_all
from client_compat.support.admin import create_topic
from ottla.protocol.client import Client
from tests.support.share_calls import configure

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
}
"""Broker settings with which a group gets its assignment, and loses a killed member, within seconds."""

TIMEOUT_S = 90.0


class WordCount:
    """A word count application. `name` is its application id and the prefix of its topics."""

    def __init__(self, bootstrap: str, name: str, directory: Path, *, replicas: int = 1) -> None:
        self.bootstrap, self.name, self.directory = bootstrap, name, directory
        self.text, self.counts = f"{name}-text", f"{name}-counts"
        self.expected: Counter[Key] = Counter()
        for topic in (self.text, self.counts):
            create_topic(bootstrap, topic, PARTITIONS, replicas=replicas)

    def standby_replicas(self, count: int) -> None:
        """Set the streams group's number of standby replicas."""
        host, port = self.bootstrap.split(",")[0].split(":")
        with Client(host, int(port)) as client:
            configure(client, self.name, streams__num__standby__replicas=str(count))

    def member(self, name: str = "one", **settings: str) -> StreamsMember:
        """Start a process of the application; processes of the same name have the same state directory."""
        return StreamsMember(self.bootstrap, self.name, self.directory / f"{self.name}-{name}", "words", self.name, **settings)

    def write(self, *lines: str) -> None:
        """Write the lines to the input topic, each to the next partition in turn."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number, line in enumerate(lines):
            producer.produce(self.text, line, partition=number % PARTITIONS)
            self.expected.update((self.counts, word) for word in line.split())
        assert producer.flush(TIMEOUT_S) == 0

    def check(self) -> None:
        """Wait until each word is counted, and assert that each count was written once, in order."""
        outputs = Outputs(self.bootstrap, [self.counts])
        deadline = time.monotonic() + TIMEOUT_S
        while outputs.counts.last != self.expected and time.monotonic() < deadline:
            outputs.step()
        outputs.close()
        counts = read_all(self.bootstrap, [self.counts])
        assert (counts.wrong(self.expected), counts.doubled, counts.missed) == (0, 0, 0), counts.samples


def until(answer: Callable[[], object], wanted: object) -> None:
    """Call `answer` repeatedly until it returns `wanted`."""
    deadline = time.monotonic() + TIMEOUT_S
    found = answer()
    while found != wanted:
        assert time.monotonic() < deadline, f"{found!r} instead of {wanted!r}"
        found = answer()

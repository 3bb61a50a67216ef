"""A normal client during an attack: it sends Produce, Fetch and Metadata in turn, every few milliseconds, and measures the responses.

A request without a response counts with the time that the client waited.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle
from typing import Any, Final

from client_compat.support.brokers import HOST, BrokerFailed
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message

TOPIC: Final = "bystander"
WAIT_MAX_S: Final = 20.0
BETWEEN_S: Final = 0.003
CALM_S: Final = 0.05
"""Upper limit, in seconds, of the response time of a broker that has finished the work of the last attack."""
CALM_IN_A_ROW: Final = 5
"""Number of consecutive responses below `CALM_S` after which the broker counts as finished with the attack."""


def requests() -> list[tuple[Message, int]]:
    """Return the requests that a bystander sends in turn, in versions with topic names."""
    batch = build_batch([SimpleRecord(b"key", b"value" * 20)])
    return [
        (
            ProduceRequest(
                acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])]
            ),
            9,
        ),
        (FetchRequest(max_bytes=1_000, topics=[FetchTopic(TOPIC, partitions=[FetchPartition(0, partition_max_bytes=1_000)])]), 12),
        (MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9),
    ]


def p99_ms(waits_s: list[float]) -> float:
    return 1000 * sorted(waits_s)[len(waits_s) * 99 // 100]


class Bystander:
    """A normal client of the broker at `port`, which measures its response times during an attack. The broker has the topic `TOPIC`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._client: Client | None = None
        self._next = cycle(requests())

    def ask(self) -> float:
        """Send the next request and return its response time in seconds. If the connection fails, return the seconds until then. Raises
        BrokerFailed for a response with an error code."""
        began = time.monotonic()
        try:
            self._client = self._client or Client(HOST, self._port, client_id=TOPIC, timeout_s=WAIT_MAX_S)
            check(self._client.call(*next(self._next)))
        except OSError:
            self.close()
        return time.monotonic() - began

    def waits_until(self, ended: Callable[[], bool]) -> list[float]:
        """Send requests until `ended()` is true, at least one; return their response times in seconds."""
        found: list[float] = []
        while not found or not ended():
            time.sleep(BETWEEN_S)
            found.append(self.ask())
        return found

    def wait_until_calm(self) -> None:
        """Wait until the broker responds as fast as without an attack, but at most WAIT_MAX_S seconds."""
        end, calm = time.monotonic() + WAIT_MAX_S, 0
        while calm < CALM_IN_A_ROW and time.monotonic() < end:
            time.sleep(BETWEEN_S)
            calm = calm + 1 if self.ask() < CALM_S else 0

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None


def check(response: Any) -> None:
    """Raise BrokerFailed if the response has an error code. Error responses must not be measured, because they are faster than normal
    ones."""
    match response:
        case ProduceResponse():
            codes = [each.error_code for topic in response.responses for each in topic.partition_responses]
        case FetchResponse():
            codes = [response.error_code, *(each.error_code for topic in response.responses for each in topic.partitions)]
        case _:
            codes = [topic.error_code for topic in response.topics]
    if any(codes):
        raise BrokerFailed(f"{type(response).__name__} of the bystander has the error code {ErrorCode(max(codes)).name}")

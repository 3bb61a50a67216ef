"""The broker's log, requested with Ottla's own protocol code and without a client library.

`Truth` creates the topics of a scenario (a test with a client), writes records that the client reads, and reads back, batch by batch, what
the client wrote.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from client_compat.support.brokers import HOST
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from ottla.protocol.records.batch import BatchHeader, split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import Record, SimpleRecord, build_batch, iter_records

WAIT_S = 30.0
POLL_S = 0.02
FETCH_BYTES = 16 * 1024 * 1024
PRODUCE_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION, DELETE_TOPICS_VERSION = 9, 12, 6, 5
"""The last versions that use topic names; every broker here supports them."""
LATEST, EARLIEST = -1, -2


class TruthFailed(RuntimeError):
    """Raised when a broker rejects a request that a test needs, or does not reach a state in time."""


def until(what: str, timeout_s: float = WAIT_S) -> Iterator[None]:
    """Yield every POLL_S seconds, until the caller leaves its `for` loop. Raises `TruthFailed` if the loop runs longer than `timeout_s`
    seconds; `what` names the awaited condition."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        yield
        time.sleep(POLL_S)
    raise TruthFailed(f"not within {timeout_s:.0f} s: {what}")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch of the log: its header and its decompressed records."""

    header: BatchHeader
    records: list[Record]


@dataclass(frozen=True, slots=True)
class Truth:
    """Requests to the broker at `port`. Each request opens its own connection, because the broker may have been restarted since the
    previous request."""

    port: int

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create the topic and wait until every partition's leader responds. Raises `TruthFailed` if the broker rejects the request or a
        leader does not respond in time."""
        given = [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
        wanted = CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=given)], timeout_ms=int(WAIT_S * 1000))
        with self._client() as client:
            (answer,) = client.call(wanted).topics
        if answer.error_code:
            raise TruthFailed(f"{name} was not created: {_name(answer.error_code)} {answer.error_message or ''}")
        self.wait_until_led(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Delete the topic and wait until the broker no longer knows it. Raises `TruthFailed` if the broker rejects the request or still
        knows the topic after WAIT_S seconds."""
        with self._client() as client:
            (answer,) = client.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=int(WAIT_S * 1000)), DELETE_TOPICS_VERSION).responses
        if answer.error_code:
            raise TruthFailed(f"{name} was not deleted: {_name(answer.error_code)}")
        for _ in until(f"{name} is gone"):
            if self._offset(name, 0, LATEST)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return

    def wait_until_led(self, name: str, partitions: int = 1) -> None:
        for _ in until(f"all {partitions} partitions of {name} have a leader"):
            if all(self._offset(name, index, LATEST)[0] == ErrorCode.NONE for index in range(partitions)):
                return

    def end_offset(self, topic: str, partition: int = 0) -> int:
        return self._known_offset(topic, partition, LATEST)

    def start_offset(self, topic: str, partition: int = 0) -> int:
        return self._known_offset(topic, partition, EARLIEST)

    def batches(self, topic: str, partition: int = 0) -> list[StoredBatch]:
        """Return every batch from the start to the end of the log, including control batches."""
        found: list[StoredBatch] = []
        offset, end = self.start_offset(topic, partition), self.end_offset(topic, partition)
        with self._client() as client:
            while offset < end:
                one = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
                request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=FETCH_BYTES, topics=[FetchTopic(topic, partitions=[one])])
                (data,) = client.call(request, FETCH_VERSION).responses[0].partitions
                if data.error_code or not data.records:
                    raise TruthFailed(f"{topic}-{partition} at {offset} of {end}: {_name(data.error_code)}, no records")
                for pos, header in split_batches(data.records):
                    if header.next_offset > offset:
                        raw = memoryview(data.records)[pos : pos + header.size_bytes]
                        found.append(StoredBatch(header, list(iter_records(raw))))
                        offset = header.next_offset
        return found

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        """Return every record of the partition, whether its transaction committed or not, without control records."""
        return [record for batch in self.batches(topic, partition) if not batch.header.is_control for record in batch.records]

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.records(topic, partition)]

    def write(self, topic: str, records: Iterable[SimpleRecord], *, partition: int = 0, codec: Codec = Codec.NONE) -> int:
        """Append one batch and return its base offset."""
        batch = build_batch(records, codec=codec)
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])
        with self._client() as client:
            (answer,) = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), PRODUCE_VERSION).responses
        (one,) = answer.partition_responses
        if one.error_code:
            raise TruthFailed(f"writing to {topic}-{partition}: {_name(one.error_code)}")
        return int(one.base_offset)

    def write_values(self, topic: str, values: Sequence[bytes], *, partition: int = 0, timestamp: int | None = None) -> int:
        """Append one batch of values without keys, with this timestamp or the current time, and return its base offset."""
        at = int(time.time() * 1000) if timestamp is None else timestamp
        return self.write(topic, [SimpleRecord(None, value, at) for value in values], partition=partition)

    def _client(self) -> Client:
        return Client(HOST, self.port, client_id="matrix")

    def _known_offset(self, topic: str, partition: int, at: int) -> int:
        code, offset = self._offset(topic, partition, at)
        if code != ErrorCode.NONE:
            raise TruthFailed(f"offset of {topic}-{partition}: {_name(code)}")
        return offset

    def _offset(self, topic: str, partition: int, at: int) -> tuple[int, int]:
        wanted = [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=at)])]
        with self._client() as client:
            answer = client.call(ListOffsetsRequest(replica_id=-1, topics=wanted), LIST_OFFSETS_VERSION)
        (one,) = answer.topics[0].partitions
        return one.error_code, one.offset


def _name(code: int) -> str:
    return ErrorCode(code).name if code in set(ErrorCode) else str(code)

"""CPU cost of a request while many connections, groups, partitions and producer ids are idle, and of these idle objects alone.

Rules:
- Where possible, the idle objects exist before the broker's start, because a partition that was just written still has to be synced.
- The same load alternates between three brokers, with no idle objects, a tenth and all of them, so that a slow phase of the machine affects
  all three.
- The figures are CPU times of the broker's process, not elapsed times.
"""

from __future__ import annotations

import itertools
import selectors
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from client_compat.bench.loads.frames import (
    ACKS_ALL,
    FRAME_BYTES_MAX,
    POLL_S,
    TIMEOUT_MS,
    RawProducer,
    dial,
    producers,
    receive,
)
from client_compat.bench.loads.pipeline import exchange
from client_compat.bench.loads.topics import LATEST, LIST_OFFSETS_VERSION, connect, create
from client_compat.bench.model import LoadFailed, Site, Values
from client_compat.support.brokers import BrokerProcess
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frame import FrameReader
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.k14_sync_group import SyncGroupRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message

PERCENTS = (0, 10, 100)
REQUEST_CPU, REST_CPU, MEMORY = "CPU a request", "CPU at rest", "memory of each"
BUSY = "busy"
"""The topic that the measured load writes and reads."""
FIRST_ID = 1 << 32
"""The lowest producer id of the idle producers. It is above the ids that a broker allocates during the load."""
START_TIMEOUT_S = 60.0
SETTLE_S = 1.5
STALLED_S = 60.0
REST_S = 6.0
BUSY_PARTITIONS, WORKERS = 100, 20
RECORD_BYTES = 100
PARTITIONS_A_TOPIC = 100
WARM_CYCLES = 5
KIBIBYTE = 1024
PRODUCE_VERSION, FETCH_VERSION, COMMIT_VERSION, JOIN_VERSION, SYNC_VERSION, COORDINATOR_VERSION = 9, 11, 7, 2, 1, 2
SESSION_MS = 1_800_000
"""The session timeout of idle group members, in ms: the maximum that brokers permit, so that the members need no heartbeats."""

Make = Callable[[BrokerProcess, int, ExitStack], None]
"""A function that creates the given number of idle objects of one kind at the broker. They exist until the stack is closed."""


@dataclass(frozen=True, slots=True)
class Idle:
    """A kind of idle objects, such as connections or groups. The keys of `stored` and `held` are functions that create such objects, the
    values are factors: a case with a `count` creates `count` times the factor of them. Objects of `stored` survive a broker restart, those
    of `held` do not."""

    stored: Mapping[Make, float] = field(default_factory=dict)
    held: Mapping[Make, float] = field(default_factory=dict)


def request_cpu(percent: int) -> str:
    """Return the name of the figure for the CPU time per request, with `percent` percent of the idle objects."""
    return f"{REQUEST_CPU} beside {percent} %"


def rest_cpu(percent: int) -> str:
    """Return the name of the figure for the broker's CPU time without requests, with `percent` percent of the idle objects."""
    return f"{REST_CPU} with {percent} %"


def beside(site: Site, *, idle: Idle, count: int, rounds: int, cycles: int) -> Values:
    """Measure the CPU time per request of three brokers, which have 0 %, 10 % and 100 % of `count` idle objects.

    The load runs in `rounds`; in each round it repeats Produce, Fetch and OffsetCommit `cycles` times on each broker in turn. Raises
    `LoadFailed` if a request is rejected or not answered in time.
    """
    with ExitStack() as stack:
        brokers = [stack.enter_context(site.fresh(f"{percent}")) for percent in PERCENTS]
        sizes = [_resting(broker, idle, count * percent / 100, stack) for percent, broker in zip(PERCENTS, brokers, strict=True)]
        loads = [_Load.to(broker, stack) for broker in brokers]
        used: list[list[float]] = [[] for _ in PERCENTS]
        for _ in range(rounds):
            for load, found in zip(loads, used, strict=True):
                found.append(load.cpu_us(cycles))
        resting = [broker.usage().cpu_seconds for broker in brokers]
        time.sleep(REST_S)
        rested = [(broker.usage().cpu_seconds - began) * 1e3 / REST_S for broker, began in zip(brokers, resting, strict=True)]
    values = {request_cpu(percent): statistics.median(found) for percent, found in zip(PERCENTS, used, strict=True)}
    values |= {rest_cpu(percent): found for percent, found in zip(PERCENTS, rested, strict=True)}
    return {**values, MEMORY: (sizes[-1] - sizes[0]) / count / KIBIBYTE}


def _resting(broker: BrokerProcess, idle: Idle, count: float, stack: ExitStack) -> int:
    """Start a broker, create its `count` idle objects, wait until it has settled, and return its resident memory in bytes."""
    broker.start(START_TIMEOUT_S)
    with connect(broker.bootstrap) as client:
        create(client, [BUSY], BUSY_PARTITIONS, by_request=True)
        _await_coordinator(client)
    for make, each in idle.stored.items():
        make(broker, int(count * each), stack)
    broker.stop(START_TIMEOUT_S)
    broker.start(START_TIMEOUT_S)
    for make, each in idle.held.items():
        make(broker, int(count * each), stack)
    time.sleep(SETTLE_S)  # wait for work that follows the start
    return broker.usage().rss_bytes


def _await_coordinator(client: Client) -> None:
    """Wait until the broker has created `__consumer_offsets` and its coordinator is available. Raises `LoadFailed` if that takes too
    long."""
    deadline = time.perf_counter() + STALLED_S
    while True:
        found: Any = client.call(FindCoordinatorRequest("bench"), COORDINATOR_VERSION)
        if found.error_code == ErrorCode.NONE:
            return
        if time.perf_counter() > deadline:
            _must(found.error_code, "FindCoordinator")
        time.sleep(POLL_S)


# --- load ------------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Worker:
    """One connection with its own partitions, which repeatedly sends a Produce, a Fetch of the record, and a commit of the record's
    offset."""

    peer: socket.socket
    requests: Iterator[bytes]
    reader: FrameReader = field(default_factory=lambda: FrameReader(FRAME_BYTES_MAX))
    left: int = 0

    def send(self) -> None:
        self.left -= 1
        self.peer.sendall(next(self.requests))


@dataclass(slots=True)
class _Load:
    broker: BrokerProcess
    workers: list[_Worker]

    @classmethod
    def to(cls, broker: BrokerProcess, stack: ExitStack) -> _Load:
        """Return a load whose workers are connected to the broker; the workers have already sent some requests to warm the broker up."""
        workers, each, ends = [], BUSY_PARTITIONS // WORKERS, _ends(broker)
        for number, producer in enumerate(producers(broker.bootstrap, WORKERS)):
            mine = range(number * each, (number + 1) * each)
            workers.append(
                _Worker(stack.enter_context(dial(broker.bootstrap)), _requests(producer, {index: ends[index] for index in mine}))
            )
        load = cls(broker, workers)
        load.run(WARM_CYCLES)
        return load

    def cpu_us(self, cycles: int) -> float:
        """Send Produce, Fetch and OffsetCommit `cycles` times on each connection; return the broker's CPU microseconds for each request.
        Raises `LoadFailed` if a request is rejected or not answered in time."""
        began = self.broker.usage().cpu_seconds
        requests = self.run(cycles)
        return (self.broker.usage().cpu_seconds - began) * 1e6 / requests

    def run(self, cycles: int) -> int:
        """Let each connection send Produce, Fetch and OffsetCommit `cycles` times, with one request in flight on each; return the number of
        requests. Raises `LoadFailed` if a request is rejected or not answered in time."""
        with selectors.DefaultSelector() as selector:
            for worker in self.workers:
                worker.left = 3 * cycles
                selector.register(worker.peer, selectors.EVENT_READ, worker)
                worker.send()
            working = len(self.workers)
            while working:
                events = selector.select(STALLED_S)
                if not events:
                    raise LoadFailed(f"{working} of {len(self.workers)} connections wait for {STALLED_S:.0f} s")
                for key, _ in events:
                    worker = key.data
                    for answer in receive(worker.peer, worker.reader):
                        if worker.left:
                            worker.send()
                        else:
                            _check(decode_response(8, COMMIT_VERSION, answer)[1])
                            working -= 1
        return 3 * cycles * len(self.workers)


def _ends(broker: BrokerProcess) -> dict[int, int]:
    """Return the end offset of each partition to which the load writes."""
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(BUSY_PARTITIONS)]
    with connect(broker.bootstrap) as client:
        answer: Any = client.call(ListOffsetsRequest(topics=[ListOffsetsTopic(name=BUSY, partitions=partitions)]), LIST_OFFSETS_VERSION)
    return {each.partition_index: each.offset for each in answer.topics[0].partitions}


def _requests(producer: RawProducer, ends: dict[int, int]) -> Iterator[bytes]:
    """Generate a worker's requests, Produce, Fetch and OffsetCommit in turn. The offsets are known in advance: no other client writes to
    the worker's partitions, and `ends` has their end offsets."""
    for number in itertools.count():
        for index, end in ends.items():
            yield producer.frame(BUSY, b"v" * RECORD_BYTES, partition=index, sequence=number, correlation_id=0, timestamp_ms=0)
            part = FetchPartition(partition=index, fetch_offset=end + number, partition_max_bytes=KIBIBYTE)
            fetch = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=BUSY, partitions=[part])])
            yield b"".join(encode_request(1, FETCH_VERSION, 0, "bench", fetch))
            yield _commit(f"busy-{producer.producer_id}", index, end + number + 1)


def _commit(group: str, index: int, offset: int, generation: int = -1, member: str = "") -> bytes:
    place = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=BUSY, partitions=[place])]
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=generation, member_id=member, topics=topics)
    return b"".join(encode_request(8, COMMIT_VERSION, 0, "bench", request))


def _check(committed: Any) -> None:
    _must(committed.topics[0].partitions[0].error_code, "OffsetCommit")


def _must(error: int, what: str) -> None:
    if error != ErrorCode.NONE:
        raise LoadFailed(f"{what} answers {ErrorCode(error).name}")


# --- idle objects ----------------------------------------------------------------------------------------------------------------


def connections(broker: BrokerProcess, count: int, stack: ExitStack) -> None:
    """Open `count` connections, exchange one ApiVersions request and response on each, and leave them idle."""
    greeting = b"".join(encode_request(18, 0, 1, "bench", ApiVersionsRequest()))
    for _ in range(count):
        _answer(stack.enter_context(dial(broker.bootstrap)), greeting)


def producer_ids(broker: BrokerProcess, count: int, _: ExitStack) -> None:
    """Make the broker store `count` producer states: each of `count` producer ids writes one record to the topic BUSY, evenly spread over
    its partitions, so that the measured load appends to partitions with many producer states."""
    for index in range(BUSY_PARTITIONS):
        ids = range(FIRST_ID + index, FIRST_ID + count, BUSY_PARTITIONS)
        made = [
            RawProducer(number, 0).frame(BUSY, b"v", partition=index, sequence=0, correlation_id=place, timestamp_ms=0)
            for place, number in enumerate(ids)
        ]
        if made:
            with dial(broker.bootstrap) as peer:
                exchange(peer, made)


def groups(broker: BrokerProcess, count: int, stack: ExitStack) -> None:
    """Create `count` classic groups, each with one member on its own connection and one committed offset."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    peers = [stack.enter_context(dial(broker.bootstrap)) for _ in range(count)]
    for number, peer in enumerate(peers):
        join = JoinGroupRequest(f"idle-{number}", SESSION_MS, TIMEOUT_MS, "", protocol_type="bench", protocols=protocols)
        peer.sendall(b"".join(encode_request(11, JOIN_VERSION, 0, "bench", join)))
    for number, peer in enumerate(peers):  # the first rebalances of all groups wait at the same time
        joined: Any = decode_response(11, JOIN_VERSION, _answer(peer))[1]
        _must(joined.error_code, "JoinGroup")
        sync = SyncGroupRequest(f"idle-{number}", joined.generation_id, joined.member_id)
        _answer(peer, b"".join(encode_request(14, SYNC_VERSION, 0, "bench", sync)))
        committed = _answer(peer, _commit(f"idle-{number}", 0, 1, joined.generation_id, joined.member_id))
        _check(decode_response(8, COMMIT_VERSION, committed)[1])


def partitions(broker: BrokerProcess, count: int, _: ExitStack) -> None:
    """Create `count` partitions (a multiple of PARTITIONS_A_TOPIC) with one record each, so that each has a directory."""
    batch = build_batch([SimpleRecord(None, b"v" * RECORD_BYTES, 0)])
    with connect(broker.bootstrap) as client:
        for number in range(count // PARTITIONS_A_TOPIC):
            create(client, [f"idle-{number}"], PARTITIONS_A_TOPIC, by_request=True)
            data = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS_A_TOPIC)]
            _produce(
                client,
                ProduceRequest(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(f"idle-{number}", partition_data=data)]),
            )


def _produce(client: Client, request: Message) -> None:
    answer: Any = client.call(request, PRODUCE_VERSION)
    for each in answer.responses[0].partition_responses:
        _must(each.error_code, "Produce")


def _answer(peer: socket.socket, request: bytes = b"") -> Any:
    reader, found = FrameReader(FRAME_BYTES_MAX), list[Any]()
    if request:
        peer.sendall(request)
    while not found:
        found = list(receive(peer, reader))
    return found[0]


CONNECTIONS, GROUPS = Idle(held={connections: 1}), Idle(held={groups: 1})
PRODUCER_IDS, PARTITIONS = Idle(stored={producer_ids: 1}), Idle(stored={partitions: 1})
EVERYTHING = Idle({partitions: 2, producer_ids: 20}, {connections: 1, groups: 0.2})
"""All kinds of idle objects together. With a `count` of 5,000, these are 5,000 connections, 1,000 groups, 10,000 partitions and 100,000
producer ids."""

"""Programs for `ottla verify` without a client library: producers, each correct or with one mistake.

- A program sends the same in each run, one request at a time.
- A program that cannot continue ends with code 1, and a supervisor may restart it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.k28_txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records

PARTITIONS = 2
BATCH_RECORDS = 2
TIMEOUT_S = 0.25
"""Timeout of a request in seconds, for programs that may send a request again: a late response of a busy machine does no harm to them."""
WAIT_S = 10
"""Timeout of a request in seconds, for programs to which sending a request again does harm. They send it again only when the connection
breaks; see `--timeout`."""
TRIES = 500
PAUSE_S = 0.01
PRODUCE_BY_NAME, FETCH_BY_NAME = 12, 12


LEADER_CHANGE_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR})
OF_GROUP, OF_TRANSACTION = -2, -1


class Refused(Exception):
    """Raised for an error code that cannot be handled by a retry."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class Link:
    """Connections to brokers, each opened again after it is lost. In a cluster each request goes to the leader or coordinator."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self.topic = os.environ["OTTLA_OUTPUT"]
        self._timeout_s = timeout_s
        self._bootstrap = os.environ["OTTLA_BOOTSTRAP_SERVERS"].split(",")
        self._clients: dict[str, Client] = {}
        self._places: dict[object, str] = {}

    def once(self, request: Any, version: int) -> Any:
        """Send a request once, and return the response. Raises OSError if there is no response."""
        try:
            return self._client(self._place(request)).call(request, version)
        except (OSError, ProtocolError):
            self.forget()
            raise

    def forget(self) -> None:
        """Discard the known leaders and coordinators, and use another bootstrap broker next."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self._places.clear()
        self._bootstrap.append(self._bootstrap.pop(0))

    def _client(self, address: str) -> Client:
        if address not in self._clients:
            host, _, port = address.rpartition(":")
            self._clients[address] = Client(host, int(port), client_id="program", timeout_s=self._timeout_s)
        return self._clients[address]

    def _place(self, request: Any) -> str:
        """Return the address of the broker for a request. Raises OSError if it is unknown."""
        wanted = None if len(self._bootstrap) == 1 else _wanted(request)
        if wanted is None:
            return self._bootstrap[0]
        if wanted not in self._places:
            self._places[wanted] = self._found(wanted)
        return self._places[wanted]

    def _found(self, wanted: tuple[str, int]) -> str:
        name, number = wanted
        client = self._client(self._bootstrap[0])
        if number < 0:
            found = client.call(FindCoordinatorRequest(key=name, key_type=number + 2), 3)
            if found.error_code:
                raise OSError(ErrorCode.of(found.error_code).name)
            return f"{found.host}:{found.port}"
        response = client.call(MetadataRequest([MetadataRequestTopic(name=name)], False), 8)
        leader = next(each.leader_id for each in response.topics[0].partitions if each.partition_index == number)
        for broker in response.brokers:
            if broker.node_id == leader:
                return f"{broker.host}:{broker.port}"
        raise OSError(f"nobody leads {name}-{number}")

    def ask(self, request: Any, version: int, pick: Callable[[Any], Any] = lambda answer: answer) -> Any:
        """Send a request until its response has no retriable error, and return what `pick` selects. `pick` selects the part with the error
        code. Raises Refused."""
        for _ in range(TRIES):
            try:
                answer = pick(self.once(request, version))
            except OSError:
                time.sleep(PAUSE_S)
                continue
            error = ErrorCode(answer.error_code)
            if not error:
                return answer
            if not error.retriable:
                raise Refused(error)
            if error in LEADER_CHANGE_ERRORS:
                self.forget()
            time.sleep(PAUSE_S)
        raise Refused(ErrorCode.REQUEST_TIMED_OUT)


def _wanted(request: Any) -> tuple[str, int] | None:
    """Return the topic and partition whose leader gets the request, or a name and the kind of coordinator; None: any broker."""
    if isinstance(request, ProduceRequest):
        return request.topic_data[0].name, request.topic_data[0].partition_data[0].index
    if isinstance(request, FetchRequest):
        return request.topics[0].topic, request.topics[0].partitions[0].partition
    if isinstance(request, TxnOffsetCommitRequest):
        return request.group_id, OF_GROUP
    if (name := getattr(request, "transactional_id", "") or getattr(request, "v3_and_below_transactional_id", "")) != "":
        return (name, OF_TRANSACTION) if name else None
    return (request.group_id, OF_GROUP) if hasattr(request, "group_id") else None


@dataclass
class Writer:
    """A producer id and its epoch, or with a transactional id a transactional producer of transaction version `version` (2 or 1). With
    `keep_id`, it keeps its producer id although the coordinator assigns a new one."""

    link: Link
    transactional_id: str | None = None
    version: int = 2
    keep_id: bool = False
    producer_id: int = -1
    epoch: int = -1
    acks: int = -1

    def __post_init__(self) -> None:
        self.sequences = [0] * PARTITIONS

    def init(self) -> Writer:
        """Send InitProducerId to get a new producer id, or with a transactional id the next epoch; return this writer."""
        if self.transactional_id is not None:
            self.link.ask(FindCoordinatorRequest(key=self.transactional_id, key_type=1), 3)
        holder = self.link.ask(InitProducerIdRequest(self.transactional_id, 60_000), 4)
        self._go_on_as(holder)
        return self

    def write(self, partition: int, values: Sequence[bytes]) -> None:
        """Write one batch of records to the partition; send it again until there is a response."""
        if self.transactional_id is not None and self.version < 2:
            self._add(partition)
        self.link.ask(self.request(partition, values), PRODUCE_BY_NAME if self.version >= 2 else PRODUCE_BY_NAME - 1, produced)
        self.sequences[partition] += len(values)

    def request(self, partition: int, values: Sequence[bytes]) -> ProduceRequest:
        """Make the Produce request of one batch."""
        known = self.producer_id >= 0
        batch = build_batch(
            [SimpleRecord(b"key-" + value, value, 1_700_000_000_000) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences[partition] if known else -1,
            transactional=self.transactional_id is not None,
        )
        data = [TopicProduceData(self.link.topic, partition_data=[PartitionProduceData(partition, batch)])]
        return ProduceRequest(transactional_id=self.transactional_id, acks=self.acks, timeout_ms=5_000, topic_data=data)

    def end(self, *, commit: bool = True, once: bool = False) -> None:
        """Send EndTxn until there is a response; with `once`, raise OSError if there is none."""
        assert self.transactional_id is not None
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)
        version = 5 if self.version >= 2 else 4
        answer = self.link.once(request, version) if once else self.link.ask(request, version)
        if self.version >= 2:
            self._go_on_as(answer)

    def _go_on_as(self, holder: Any) -> None:
        if not (self.keep_id and self.producer_id >= 0):
            self.producer_id = holder.producer_id
        self.epoch = holder.producer_epoch
        self.sequences = [0] * PARTITIONS

    def _add(self, partition: int) -> None:
        request = AddPartitionsToTxnRequest()
        request.v3_and_below_transactional_id = self.transactional_id or ""
        request.v3_and_below_producer_id, request.v3_and_below_producer_epoch = self.producer_id, self.epoch
        request.v3_and_below_topics = [AddPartitionsToTxnTopic(self.link.topic, [partition])]
        self.link.ask(request, 3, added)


@dataclass
class _Error:
    error_code: int


def added(answer: Any) -> _Error:
    """Return the partition's error in a response to AddPartitionsToTxn of version 3 or lower."""
    return _Error(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def produced(answer: Any) -> Any:
    """Return the partition's part of a Produce response, which contains the error code."""
    return answer.responses[0].partition_responses[0]


def committed(link: Link, topic: str, partition: int, offset: int = 0, *, isolation: int = 1) -> tuple[list[tuple[int, bytes]], int]:
    """Fetch once; return offsets and values of a partition, and the offset after them. `isolation` 0 also returns aborted records."""
    topics = [FetchTopic(topic, partitions=[FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)])]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=isolation, topics=topics)
    data = link.ask(request, FETCH_BY_NAME, lambda answer: answer.responses[0].partitions[0])
    pending = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    aborting: set[int] = set()
    found: list[tuple[int, bytes]] = []
    records = bytes(data.records or b"")
    for position, header in split_batches(records):
        while pending and pending[0][0] <= header.last_offset:
            aborting.add(pending.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            each = iter_records(records[position : position + header.size_bytes])
            found += [(record.offset, bytes(record.value or b"")) for record in each if record.offset >= offset]
        offset = max(offset, header.next_offset)
    return found, offset


def all_committed(link: Link, topic: str) -> set[bytes]:
    """Return every committed value of a topic."""
    values: set[bytes] = set()
    for partition in range(PARTITIONS):
        offset, before = 0, -1
        while offset != before:
            before = offset
            found, offset = committed(link, topic, partition, offset)
            values |= {value for _, value in found}
    return values


def batches(suffix: bytes = b"") -> Iterator[tuple[int, list[bytes]]]:
    """Yield the partition and the values of each batch, alternating between partitions."""
    records = int(os.environ["OTTLA_RECORDS"])
    for number, first in enumerate(range(0, records, BATCH_RECORDS)):
        yield number % PARTITIONS, [b"record-%d%s" % (each, suffix) for each in range(first, min(records, first + BATCH_RECORDS))]


# --- the programs ----------------------------------------------------------------------------------------------------------------------


def idempotent(_: argparse.Namespace) -> int:
    """Write every batch, and retry with the same sequence number."""
    writer = Writer(Link()).init()
    for partition, values in batches():
        writer.write(partition, values)
    return 0


def plain(options: argparse.Namespace) -> int:
    """Write every batch, and retry without a producer id; with the flag `acks-one`, with acks=1."""
    writer = Writer(Link(options.timeout), acks=1 if options.acks_one else -1)
    for partition, values in batches():
        writer.write(partition, values)
    return 0


def varying(options: argparse.Namespace) -> int:
    """Write every batch; the values are different in each run of the program, so that a restart writes other records."""
    writer = Writer(Link(options.timeout))
    for partition, values in batches(b"-%d" % time.time_ns()):
        writer.write(partition, values)
    return 0


def alike(options: argparse.Namespace) -> int:
    """Write records that all have the same value."""
    writer = Writer(Link(options.timeout))
    for partition, values in batches():
        writer.write(partition, [b"same"] * len(values))
    return 0


def single(_: argparse.Namespace) -> int:
    """Write all records in one Produce request, with a producer id."""
    writer = Writer(Link()).init()
    writer.write(0, [value for _, values in batches() for value in values])
    return 0


def careless(options: argparse.Namespace) -> int:
    """Send each batch once, and ignore the response."""
    link = Link(options.timeout)
    writer = Writer(link)
    for partition, values in batches():
        try:
            link.once(writer.request(partition, values), PRODUCE_BY_NAME)
        except OSError:
            continue
    return 0


def postponing(options: argparse.Namespace) -> int:
    """Write every batch; send rejected batches again after all others, which changes the order."""
    link = Link(options.timeout)
    writer = Writer(link)
    waiting = list(batches())
    while waiting:
        partition, values = waiting.pop(0)
        if produced(link.once(writer.request(partition, values), PRODUCE_BY_NAME)).error_code:
            waiting.append((partition, values))
    return 0


def transactional(options: argparse.Namespace) -> int:
    """Write two batches in a transaction. After a restart, read what is committed, and continue from there."""
    link = Link(options.timeout if options.begin_again else TIMEOUT_S)
    made_up = f"{os.getpid()}-{time.time_ns()}" if options.new_id else os.environ["OTTLA_INSTANCE"]
    writer = Writer(link, f"{os.environ['OTTLA_GROUP']}-{made_up}", 1 if options.v1 else 2, options.keep_id).init()
    there = set() if options.no_read_back else all_committed(link, link.topic)
    waiting = [each for each in batches() if there.isdisjoint(each[1])]
    for first in range(0, len(waiting), PARTITIONS):
        chunk = waiting[first : first + PARTITIONS]
        try:
            for partition, values in chunk:
                writer.write(partition, values)
            writer.end(once=options.begin_again)
        except OSError:
            _again(writer.init(), chunk)
        except Refused:
            if not options.ignore_aborts:
                raise
            writer.init()
    return 0


def _again(writer: Writer, chunk: Sequence[tuple[int, list[bytes]]]) -> None:
    for partition, values in chunk:
        writer.write(partition, values)
    writer.end()


def nothing(_: argparse.Namespace) -> int:
    """Exit successfully without writing any record."""
    return 0


def fails(_: argparse.Namespace) -> int:
    """Exit with code 3 after coloured output."""
    print("\x1b[31mno such luck\x1b[0m", file=sys.stderr)
    return 3


def fails_once(options: argparse.Namespace) -> int:
    """Fail at the first start before writing anything, and succeed after a restart."""
    marker = Path(os.environ["OTTLA_WORK_DIR"]) / "failed"
    if marker.exists():
        return idempotent(options)
    marker.touch()
    return fails(options)


def hangs(_: argparse.Namespace) -> int:
    """Start a child, print both process ids, and wait for ever; ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"])
    pids = Path(os.environ["OTTLA_WORK_DIR"]) / "pids"
    pids.with_suffix(".new").write_text(f"{os.getpid()} {child.pid}")
    pids.with_suffix(".new").rename(pids)
    while True:
        signal.pause()


def leaves_a_child(options: argparse.Namespace) -> int:
    """Exit successfully, but leave a child process running that never ends."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    Path(os.environ["OTTLA_WORK_DIR"], "pids").write_text(str(child.pid))
    code = idempotent(options)
    os._exit(code)  # a normal exit would print a warning about the running child


MODES: dict[str, Callable[[argparse.Namespace], int]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        idempotent,
        plain,
        varying,
        alike,
        single,
        careless,
        postponing,
        transactional,
        nothing,
        fails,
        fails_once,
        hangs,
        leaves_a_child,
    )
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=MODES)
    for flag in ("v1", "new-id", "keep-id", "no-read-back", "begin-again", "ignore-aborts", "acks-one"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--timeout", type=float, default=WAIT_S, help="seconds, for programs to which a second request does harm")
    options = parser.parse_args()
    try:
        return MODES[options.mode](options)
    except Refused as refused:
        print(f"refused: {refused}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

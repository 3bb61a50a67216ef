"""Kills brokers with SIGKILL while two members of a share group accept and release records. After the last kill, the members consume the
remaining records, and all deliveries are checked."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from client_compat.crash.member import Delivery, Member, Offset
from client_compat.crash.routes import MustReconnect, Routes
from client_compat.crash.run import CrashRun, OnKill, kill_under_load
from client_compat.kafka.cluster import Cluster, Kind, running
from client_compat.support.admin import create_topic
from client_compat.support.brokers import HOST, BrokerProcess, ottla
from client_compat.support.counted import Counted
from ottla.protocol.client import Client
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.records.record import SimpleRecord, build_batch

GROUP, TOPIC = "workers", "jobs"
PARTITIONS = 2
MEMBERS = 2
BATCH = 20
SET = 0
OF_GROUP = 32
SETTINGS = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
PRODUCE_S = 0.01
"""The pause between two produced batches in seconds, so that the members keep up."""
DRAIN_S = 60.0


@dataclass(slots=True)
class ShareVerdict(Counted):
    """The result of checking the deliveries of a share group, in counts of records; `deliveries` counts a record each time it was
    delivered."""

    JUDGED = "accepted"
    WRONG = ("lost", "delivered_again")
    NOTED = ("produced", "deliveries")
    produced: int = 0
    accepted: int = 0
    deliveries: int = 0
    lost: int = 0
    """The number of produced records that no member accepted. A record counts as accepted even if the broker did not answer the
    acceptance."""
    delivered_again: int = 0
    """The number of records that were delivered again after their acceptance: the broker had confirmed the acceptance before the later
    ShareFetch request was sent."""


class Producer:
    """Appends batches to the topic on a thread of its own. `offsets` has the partition and offset of each record whose Produce request was
    acknowledged."""

    def __init__(self, ports: Sequence[int], rng: random.Random) -> None:
        self.offsets: set[Offset] = set()
        self._ports = ports
        self._random = rng
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with Routes(self._ports, self._random) as routes:
                    leaders = routes.leaders(TOPIC)
                    while not self._ended.wait(PRODUCE_S):
                        index = len(self.offsets) // BATCH % PARTITIONS
                        self._append(leaders[index], index)
            except (OSError, ProtocolError, MustReconnect):
                self._ended.wait(PRODUCE_S)

    def _append(self, client: Client, index: int) -> None:
        batch = build_batch([SimpleRecord(None, b"job %d" % number, time.time_ns() // 1_000_000) for number in range(BATCH)])
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(index, batch)])]
        answer = client.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=data), version=9).responses[0].partition_responses[0]
        if answer.error_code:
            raise MustReconnect
        self.offsets |= {(index, answer.base_offset + number) for number in range(BATCH)}


def share_crash(
    directory: Path, kills: int, seed: int, *, brokers: int = 1, options: Sequence[str] = (), on_kill: OnKill = lambda done: None
) -> CrashRun:
    """Kill brokers while members of a share group work, and check all deliveries. Return the kills and the result. `options` are arguments
    of `ottla serve`. Raises `BrokerFailed` if a broker does not restart, `RunFailed` if a member receives no response in time."""
    rng = random.Random(seed)
    with _brokers(directory, brokers, options) as processes:
        bootstrap, ports = ",".join(broker.bootstrap for broker in processes), [broker.port for broker in processes]
        create_topic(bootstrap, TOPIC, PARTITIONS, replicas=min(brokers, 3))
        _configure(ports[0])
        producer = Producer(ports, random.Random(seed))
        progress = threading.Condition()
        with _members(ports, seed, progress) as members:
            done = kill_under_load(processes, kills, rng, lambda: [member.answered for member in members], on_kill)
            producer.stop()
            _drain(producer.offsets, members, progress)
        return CrashRun(done, judge(producer.offsets, [delivery for member in members for delivery in member.deliveries]))


@contextmanager
def _brokers(directory: Path, count: int, options: Sequence[str]) -> Iterator[list[BrokerProcess]]:
    """Run `count` brokers while the context lasts, and yield them: a standalone broker for 1, otherwise a cluster with a separate
    controller."""
    if count == 1:
        with ottla(directory / "log", options=options, output=directory / "broker.log") as broker:
            yield [broker]
        return
    with running(Cluster(directory, [Kind.OTTLA] * count, controller_kind=Kind.OTTLA, options=options)) as cluster:
        yield [node.process for node in cluster.brokers]


def judge(produced: set[Offset], deliveries: Sequence[Delivery]) -> ShareVerdict:
    """Compare the deliveries with the produced records, and return the counts of differences. A record whose acceptance was not answered is
    not lost: the broker may have persisted it before the kill."""
    accepted: dict[Offset, float] = {}
    for delivery in deliveries:
        if delivery.accepted:
            accepted[delivery.offset] = min(delivery.accepted, accepted.get(delivery.offset, delivery.accepted))
    unanswered = {delivery.offset for delivery in deliveries if delivery.accepts and not delivery.accepted}
    lost = sorted(produced - accepted.keys() - unanswered)
    again = sorted({one.offset for one in deliveries if one.sent > accepted.get(one.offset, float("inf"))})
    verdict = ShareVerdict(len(produced), len(accepted), len(deliveries), len(lost), len(again))
    for what, offsets in (("lost", lost), ("delivered after its acceptance", again)):
        for partition, offset in offsets:
            verdict.note(f"partition {partition}, offset {offset}: {what}")
    return verdict


@contextmanager
def _members(ports: Sequence[int], seed: int, progress: threading.Condition) -> Iterator[list[Member]]:
    members = [Member(ports, GROUP, TOPIC, seed + number, progress) for number in range(MEMBERS)]
    try:
        yield members
    finally:
        for member in members:
            member.stop()


def _configure(port: int) -> None:
    configs = [AlterableConfig(name, SET, value) for name, value in SETTINGS.items()]
    with Client(HOST, port) as client:
        client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(OF_GROUP, GROUP, configs)]))


def _drain(produced: set[Offset], members: Sequence[Member], progress: threading.Condition) -> None:
    """Wait until each produced record was delivered to a member that accepts it (not one that releases it), or until DRAIN_S seconds have
    passed."""
    with progress:
        progress.wait_for(
            lambda: produced <= {delivery.offset for member in members for delivery in member.deliveries if delivery.accepts}, DRAIN_S
        )

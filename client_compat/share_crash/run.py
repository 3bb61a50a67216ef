"""The kills: SIGKILL at random instants under share load, until `kills` are done; then everything that is left is consumed.

Rule: the random source is an argument, so a seed repeats the plan (not the interleaving: threads and kernel have their say in that).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from client_compat.share_crash.member import Delivery, Member, Offset
from client_compat.support.admin import create_topic
from client_compat.support.brokers import HOST, BrokerFailed, BrokerProcess, ottla
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
KILL_AFTER_S = (0.02, 0.6)
PRODUCE_S = 0.01
"""The pause between two batches, so that the members keep up."""
SERVED_TIMEOUT_S = 30.0
DRAIN_S = 60.0


@dataclass(slots=True)
class ShareCrashRun:
    """What was done and found. `lost` were never accepted; `again` were delivered although their acceptance had been answered before."""

    seed: int
    kills: int = 0
    produced: int = 0
    accepted: int = 0
    deliveries: int = 0
    lost: list[Offset] = field(default_factory=list)
    again: list[Offset] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether there was load, and each promise was kept."""
        return self.accepted > 0 and not self.lost and not self.again


class Producer:
    """Appends batches on a thread of its own, and knows which offsets were acknowledged."""

    def __init__(self, port: int) -> None:
        self.offsets: set[Offset] = set()
        self._port = port
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with Client(HOST, self._port, timeout_s=5.0) as client:
                    while not self._ended.wait(PRODUCE_S):
                        self._append(client, len(self.offsets) // BATCH % PARTITIONS)
            except (OSError, ProtocolError):
                self._ended.wait(PRODUCE_S)

    def _append(self, client: Client, index: int) -> None:
        batch = build_batch([SimpleRecord(None, b"job %d" % number, time.time_ns() // 1_000_000) for number in range(BATCH)])
        data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(index, batch)])]
        answer = client.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=data), version=9).responses[0].partition_responses[0]
        if not answer.error_code:
            self.offsets |= {(index, answer.base_offset + number) for number in range(BATCH)}


def share_crash(
    directory: Path, kills: int, seed: int, *, options: Sequence[str] = (), on_kill: Callable[[ShareCrashRun], None]
) -> ShareCrashRun:
    """Run the whole test in `directory` (made here). Raises `BrokerFailed` if the broker does not come back, or serves a member no more."""
    rng, run, began = random.Random(seed), ShareCrashRun(seed), time.perf_counter()
    with ottla(directory / "log", options=options, output=directory / "broker.log") as broker:
        create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        _configure(broker)
        producer = Producer(broker.port)
        progress = threading.Condition()
        with _members(broker.port, seed, progress) as members:
            while run.kills < kills:
                _wait_until_all_are_served(broker, members, progress)
                time.sleep(rng.uniform(*KILL_AFTER_S))
                broker.kill()
                run.kills += 1
                broker.start()
                on_kill(run)
            producer.stop()
            _drain(producer.offsets, members, progress)
        judge(run, producer.offsets, [delivery for member in members for delivery in member.deliveries])
    run.seconds = time.perf_counter() - began
    return run


def judge(run: ShareCrashRun, produced: set[Offset], deliveries: Sequence[Delivery]) -> None:
    """Count what was lost, and what was delivered again by a request that was sent after the acceptance was answered.

    A record is not lost if the broker was killed before it answered an acceptance: it may have persisted that.
    """
    accepted: dict[Offset, float] = {}
    for delivery in deliveries:
        if delivery.accepted:
            accepted[delivery.offset] = min(delivery.accepted, accepted.get(delivery.offset, delivery.accepted))
    run.produced, run.accepted, run.deliveries = len(produced), len(accepted), len(deliveries)
    unanswered = {delivery.offset for delivery in deliveries if delivery.accepts and not delivery.accepted}
    run.lost = sorted(produced - accepted.keys() - unanswered)
    run.again = sorted({one.offset for one in deliveries if one.sent > accepted.get(one.offset, float("inf"))})


@contextmanager
def _members(port: int, seed: int, progress: threading.Condition) -> Iterator[list[Member]]:
    members = [Member(port, GROUP, TOPIC, seed + number, progress) for number in range(MEMBERS)]
    try:
        yield members
    finally:
        for member in members:
            member.stop()


def _configure(broker: BrokerProcess) -> None:
    configs = [AlterableConfig(name, SET, value) for name, value in SETTINGS.items()]
    with Client(HOST, broker.port) as client:
        client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(OF_GROUP, GROUP, configs)]))


def _wait_until_all_are_served(broker: BrokerProcess, members: Sequence[Member], progress: threading.Condition) -> None:
    """A kill counts as under load only if each member's acknowledgement was answered since the last one."""
    before = [member.answered for member in members]
    with progress:
        all_served = progress.wait_for(
            lambda: all(member.answered > then for member, then in zip(members, before, strict=True)), SERVED_TIMEOUT_S
        )
    broker.check_alive()
    if not all_served:
        raise BrokerFailed(f"a member was not served within {SERVED_TIMEOUT_S:.0f} s of a restart:\n{broker.output_tail()}")


def _drain(produced: set[Offset], members: Sequence[Member], progress: threading.Condition) -> None:
    """Wait until every record was delivered and accepted, or this takes too long."""
    with progress:
        progress.wait_for(
            lambda: produced <= {delivery.offset for member in members for delivery in member.deliveries if delivery.accepts}, DRAIN_S
        )

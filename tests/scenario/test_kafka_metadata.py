"""An observer replicates the metadata log of a real Kafka: the same bytes, and the same image as Kafka's own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from client_compat.kafka.reference import NEW_CLUSTER_ID, ReferenceBroker
from client_compat.kafka.tools import Tools
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.observer_state import Observer
from ottla.broker.cluster.snapshots import SnapshotId, read_snapshot
from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID
from ottla.broker.core.clock import Clock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.net.network import Sockets
from ottla.broker.net.node_client import NodeClient
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.nodes.observer import MetadataObserver
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.partition_log import PartitionLog
from ottla.protocol.client import Client
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.records.batch import split_batches
from ottla.protocol.schema import Message
from tests.support.apache_kafka import jars_or_skip
from tests.support.group_calls import wait_until_async
from tests.support.kafka_tools import good, table
from tests.support.metadata_images import made_of
from tests.support.running_broker import HOST
from tests.support.topic_calls import create

METADATA = ("__cluster_metadata", 0)
OBSERVER_ID = 7


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


@pytest.fixture(scope="module")
def kafka(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceBroker]:
    with ReferenceBroker(tmp_path_factory.mktemp("kafka") / "data") as broker:
        yield broker


class OlderLink(NodeClient):
    """A link as to a controller of Kafka 4.0: with Fetch 17 it reports a new high watermark half a second later, unless there are new
    records."""

    async def call(self, request: Message, *, timeout_ms: int, version: int | None = None) -> Any:
        return await super().call(request, timeout_ms=timeout_ms, version=17)


class Life:
    """A running observer."""

    def __init__(self) -> None:
        self.published: list[Published] = []
        self.failures: list[BaseException] = []
        self.observer: MetadataObserver
        self.log: PartitionLog

    async def heard(self, published: Published) -> None:
        self.published.append(published)

    @property
    def image(self) -> MetadataImage:
        return self.published[-1].image if self.published else MetadataImage()

    async def sees(self, topic: str) -> None:
        await wait_until_async(lambda: self.image.topic(topic) is not None, f"the observer sees {topic}", 30)


@asynccontextmanager
async def life(path: Path, kafka: ReferenceBroker, *, static: bool = False, clean: bool = True) -> AsyncIterator[Life]:
    clock, timers, made = Clock(), Timers(), Life()
    link = OlderLink if static else NodeClient
    driver = TimerDriver(timers, clock)
    driver.start()
    flusher, nursery = Flusher(made.failures.append), Nursery(timers, clock, made.failures.append)
    log_dir = LogDir.open(path, BrokerSettings(), clock.now_ms())
    config = LogConfig(retention_ms=-1, retention_bytes=-1)
    made.log = log_dir.logs.get(METADATA) or log_dir.create_log(*METADATA, METADATA_TOPIC_ID, config, at_once=True)
    made.observer = MetadataObserver(
        made.log,
        Observer(OBSERVER_ID, log_dir.meta.directory_id, NEW_CLUSTER_ID),
        [Node(kafka.node_id if static else -1, HOST, kafka.controller_port)],
        connect=lambda node: link(node, Sockets(), clock=clock, timers=timers, random=random.Random(1), client_id="ottla"),
        nursery=nursery,
        flusher=flusher,
        random=random.Random(1),
        on_published=made.heard,
    )
    made.observer.start()
    try:
        yield made
        assert made.failures == []
    finally:
        await nursery.stop()
        driver.stop()
        flusher.close()
        log_dir.close(clean=clean)


def committed_bytes(directory: Path, start: int, end: int) -> bytes:
    """Return the batches of these offsets from a metadata log with one segment."""
    (segment,) = directory.glob("*.log")
    data = segment.read_bytes()
    return b"".join(
        data[position : position + header.size_bytes]
        for position, header in split_batches(data)
        if start <= header.base_offset and header.next_offset <= end
    )


async def test_observer_has_the_log_and_image_of_kafkas_controller_over_restarts_of_both(
    kafka: ReferenceBroker, tools: Tools, tmp_path: Path
) -> None:
    theirs, ours = kafka.data_dir / "__cluster_metadata-0", tmp_path / "data" / "__cluster_metadata-0"
    with Client(HOST, kafka.port) as client:
        create(client, "first", 3, {"retention.ms": "1234"})
        create(client, "gone")
        async with life(tmp_path / "data", kafka) as one:
            await one.sees("first")
            assert one.image.configs[2, "first"] == {"retention.ms": "1234"}
            assert one.observer.controller == Node(kafka.node_id, HOST, kafka.controller_port)
            assert one.image.brokers[kafka.node_id].fenced is False
            asking = ("--bootstrap-controller", f"{HOST}:{kafka.controller_port}", "describe", "--replication")
            output = good(await asyncio.to_thread(tools.run, "kafka-metadata-quorum", *asking))
            row = next(row for row in table(output, "NodeId") if row["NodeId"] == str(OBSERVER_ID))
            assert row["Status"] == "Observer"
            assert int(row["LogEndOffset"]) > 10
            client.call(DeleteTopicsRequest([DeleteTopicState("gone")], timeout_ms=10_000), version=6)
            await wait_until_async(lambda: one.image.topic("gone") is None, "the topic is gone")
    await asyncio.to_thread(kafka.kill)
    async with life(tmp_path / "data", kafka, clean=False) as two:
        await wait_until_async(lambda: two.log.log_end_offset > 0, "its own log is read")
        assert two.published == []
        await asyncio.to_thread(kafka.start)
        with Client(HOST, kafka.port) as client:
            create(client, "second")
        await two.sees("second")
        assert two.image.topic("first") is not None
        end = two.observer.high_watermark
        assert end is not None
        assert committed_bytes(ours, 0, end) == committed_bytes(theirs, 0, end)
    async with life(tmp_path / "data", kafka) as three:
        await three.sees("second")
        assert three.observer.applied_offset >= end - 1


async def test_late_observer_of_a_static_quorum_starts_from_a_snapshot_that_equals_kafkas(tools: Tools, tmp_path: Path) -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "600"}
    theirs, ours = tmp_path / "kafka" / "__cluster_metadata-0", tmp_path / "data" / "__cluster_metadata-0"
    with ReferenceBroker(tmp_path / "kafka", settings, static_voters=True) as kafka, Client(HOST, kafka.port) as client:
        for n in range(4):
            create(client, f"topic-{n}", 2, {"retention.ms": str(n)})
        async with life(tmp_path / "data", kafka, static=True) as late:
            await late.sees("topic-3")
            loaded = max(found for path in ours.iterdir() if (found := SnapshotId.of_file(path.name)))
            assert (ours / loaded.file_name).read_bytes() == (theirs / loaded.file_name).read_bytes()
            assert late.log.log_start_offset == loaded.end_offset
            create(client, "topic-4")
            await late.sees("topic-4")

            def newest() -> tuple[SnapshotId, MetadataImage] | None:
                """Return Kafka's latest snapshot at an offset for which the observer published an image."""
                at = {published.provenance.offset + 1: published.image for published in late.published}
                there = [found for path in theirs.iterdir() if (found := SnapshotId.of_file(path.name)) and found.end_offset in at]
                return (max(there), at[max(there).end_offset]) if there and max(there) > loaded else None

            await wait_until_async(lambda: newest() is not None, "the Kafka makes a snapshot where an image was told", 30)
            found, image = newest() or (loaded, MetadataImage())
            assert made_of(*read_snapshot((theirs / found.file_name).read_bytes()).records) == image

"""A data directory of a cluster broker, without sockets: it applies the metadata that a test publishes."""

from __future__ import annotations

from pathlib import Path

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_loader import MetadataBatch, MetadataLoader
from ottla.broker.cluster.metadata_records import Endpoint, MetadataRecord, PartitionChangeRecord, PartitionRecord, RegisterBrokerRecord
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.throttle import Throttle, Throttles
from ottla.broker.runtime.metadata.publisher import Publisher
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partition import ClusterContext, Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.log_dir import LogDir

TopicPartition = tuple[str, int]


class NotedFetchers:
    """A stand-in for the replica fetchers. It starts no fetcher, and only records the leader of each partition."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {}
        self.begun = 0

    def follow(self, partition: Partition, leader: int) -> None:
        self.leaders[partition.topic, partition.index] = leader
        self.begun += 1

    def forget(self, partition: Partition) -> None:
        self.leaders.pop((partition.topic, partition.index), None)


class ClusterBrokerDir:
    """The services of cluster broker 1 on the data directory `path`, which is opened here. `publish` applies metadata records to them, as a
    new metadata image."""

    def __init__(self, path: Path, *, files: Files = FILES, settings: BrokerSettings | None = None) -> None:
        self.clock = VirtualClock()
        self.settings = settings or BrokerSettings(node_id=1)
        self.flusher = Flusher(lambda error: None)
        self.log_dir = LogDir.open(path, self.settings, self.clock.now_ms(), files=files)
        self.catalog = Catalog()
        self.brokers = Brokers()
        context = ClusterContext(self.brokers, lambda partition: None, self._has)
        self.partitions = Partitions(self.flusher, self.clock, context)
        self.throttles = Throttles(Throttle(11, 1_000), Throttle(11, 1_000))
        self.fetchers = NotedFetchers()
        self.publisher = Publisher(
            self.catalog,
            BrokerConfigs(self.settings, self.catalog),
            log_dir=self.log_dir,
            partitions=self.partitions,
            flusher=self.flusher,
            nursery=Nursery(Timers(), self.clock, lambda _: None),
            brokers=self.brokers,
            throttles=self.throttles,
        )
        self.publisher.fetchers = self.fetchers
        self._loader = MetadataLoader()

    def _has(self, topic: str | bytes, index: int | None) -> bool:
        found = self.catalog.topic(topic) if isinstance(topic, str) else self.catalog.topic_by_id(topic)
        return found is not None and (index is None or index in found.partitions)

    async def publish(self, *records: MetadataRecord) -> None:
        """Publish these metadata records as one batch: the broker's services apply them."""
        base = self._loader.published.provenance.offset + 1
        for published in self._loader.load([MetadataBatch(base, base + max(len(records), 1) - 1, 1, 0, records)]):
            await self.publisher.publish(published)

    def roles(self) -> dict[TopicPartition, bool]:
        """Return, for each served partition, whether this broker leads it."""
        return {(partition.topic, partition.index): partition.leads for partition in self.partitions}

    def close(self) -> None:
        self.flusher.close()
        self.log_dir.close(clean=True)


def partition(topic_id: bytes, index: int, replicas: list[int], *, leader: int | None = None, epoch: int = 0) -> PartitionRecord:
    """Make a partition whose replicas are all in sync; by default the first one leads."""
    leads = replicas[0] if leader is None else leader
    return PartitionRecord(index, topic_id, replicas, list(replicas), leader=leads, leader_epoch=epoch, partition_epoch=epoch)


def change(topic_id: bytes, index: int, **fields: object) -> PartitionChangeRecord:
    """Make a record that changes these fields of a partition; the other fields stay unchanged."""
    return PartitionChangeRecord(index, topic_id, **fields)  # type: ignore[arg-type]  # fields by name


def broker(node: int, *, epoch: int = 1, fenced: bool = False, listeners: dict[str, tuple[str, int]] | None = None) -> RegisterBrokerRecord:
    """Make a registration; by default it listens with PLAINTEXT at host `h<node>`, port 9092."""
    ends = [Endpoint(name, host, port) for name, (host, port) in (listeners or {"PLAINTEXT": (f"h{node}", 9092)}).items()]
    return RegisterBrokerRecord(node, broker_epoch=epoch, end_points=ends, fenced=fenced)

"""A controller's state, to which the records that its decisions return are applied, with a log in memory, for tests of these decisions."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypeVar

from ottla.broker.cluster.features import METADATA_LEVEL, METADATA_VERSION, REGISTERED
from ottla.broker.cluster.image import BrokerRegistration, PartitionRegistration
from ottla.broker.cluster.metadata_records import (
    Endpoint,
    FeatureLevelRecord,
    FeatureRange,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.broker.cluster.record_frames import decode_record, encode_record
from ottla.broker.cluster.record_versions import version_of
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.releases.release_behaviour import DEFAULT_RELEASE, behaviour_of

T = TypeVar("T")
CONTROLLER = 3000
CLUSTER_ID = "EJgV4vlvRp2rkrbxMwJ3xg"


def directory(number: int) -> bytes:
    """Make a directory id from a number; it is none of the reserved ids."""
    return (number + 1000).to_bytes(16, "big")


class LiveController:
    """A controller's state. `run` applies a decision's records. `log` is every record so far; `now_ms` is the time, which tests set."""

    def __init__(
        self, level: int = METADATA_LEVEL, features: Mapping[str, int] | None = None, seed: int = 1, like: str = DEFAULT_RELEASE
    ) -> None:
        settings = BrokerSettings(node_id=CONTROLLER, release_behaviour=behaviour_of(like))
        self.state = ControllerState(CLUSTER_ID, settings, Random(seed), voters=[CONTROLLER])
        self.log: list[MetadataRecord] = []
        self.now_ms = 0
        self.write(FeatureLevelRecord(METADATA_VERSION, level))
        for name, wanted in (features or {}).items():
            self.write(FeatureLevelRecord(name, wanted))

    @property
    def next_offset(self) -> int:
        return len(self.log)

    def run(self, effects: Effects[MetadataRecord, T]) -> T:
        """Return the response of a decision, after applying its records in the version of the metadata level."""
        written = self._through_the_log(effects.records)
        assert written == list(effects.records)
        self.state.apply(effects, self.next_offset)
        self.log += written
        return effects.response

    def write(self, *records: MetadataRecord) -> None:
        """Apply metadata records that are not the result of a decision."""
        self.state.apply(Effects(records, None), self.next_offset)
        self.log += records

    def broker(self, broker_id: int) -> BrokerRegistration:
        return self.state.image.brokers[broker_id]

    def add_broker(self, broker_id: int, *, fenced: bool = False, rack: str | None = None, directories: int = 1) -> BrokerRegistration:
        """Add a broker with its own directories; return its epoch, the offset of its registration."""
        record = RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=(broker_id * 7 + self.next_offset).to_bytes(16, "big"),
            broker_epoch=self.next_offset,
            end_points=[Endpoint("PLAINTEXT", "localhost", 9000 + broker_id, 0)],
            features=[FeatureRange(name, low, high) for name, (low, high) in sorted(REGISTERED.items())],
            rack=rack,
            fenced=fenced,
            log_dirs=[directory(broker_id * 10 + number) for number in range(directories)],
        )
        self.write(record)
        return self.broker(broker_id)

    def add_topic(self, name: str, *partitions: PartitionRegistration) -> bytes:
        """Add a topic; return its id."""
        topic_id = (len(self.state.image.topics) + 1).to_bytes(16, "little")
        self.write(TopicRecord(name, topic_id))
        for index, partition in enumerate(partitions):
            self.write(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=list(partition.replicas),
                    isr=list(partition.isr),
                    leader=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    directories=list(partition.directories),
                    eligible_leader_replicas=list(partition.elr) or None,
                    last_known_elr=list(partition.last_known_elr) or None,
                )
            )
        return topic_id

    def partition(self, topic: str, index: int = 0) -> PartitionRegistration:
        return self.state.image.topics[self.state.image.topic_ids[topic]].partitions[index]

    def _through_the_log(self, records: object) -> list[MetadataRecord]:
        level = self.state.metadata_level
        assert isinstance(records, list | tuple)
        return [decode_record(encode_record(record, version_of(record, level)))[0] for record in records]


def replicas(*brokers: int, isr: tuple[int, ...] | None = None, leader: int | None = None) -> PartitionRegistration:
    """Make a partition on the first directories of these brokers (`add_broker`); by default all are in sync and the first leads."""
    in_sync = brokers if isr is None else isr
    return PartitionRegistration(
        replicas=brokers,
        directories=tuple(directory(broker * 10) for broker in brokers),
        isr=in_sync,
        leader=in_sync[0] if leader is None else leader,
        leader_epoch=0,
        partition_epoch=0,
    )

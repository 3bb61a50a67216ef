"""The records of `__cluster_metadata-0`, in the formats of Kafka's KRaft metadata (`common/metadata/*.json`, `MetadataRecordSerde`).

A record's value is: unsigned varint frame version (always 1), unsigned varint type, unsigned varint version, then the body in the flexible
encoding. It has no key. So `kafka-dump-log --cluster-metadata-decoder` reads our log, and we read the records of Kafka's that concern us.

Rules that hold inside:
- A kind of record that we do not use decodes to None; a damaged one of a kind that we use raises `ProtocolError`, which stops the start.
- Records are written in the versions of the log's `metadata.version`, which is what its readers know (Kafka's `MetadataVersion`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.broker.topics.features import METADATA_LEVEL
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.schema import Message, array, boolean, decode, encode, int8, int16, int32, int64, string, uint16, uuid
from ottla.protocol.wire import Bad, Buffer, read_uvarint, uvarint

FRAME_VERSION: Final = 1


@dataclass(slots=True)
class BrokerEndpoint:
    """One listener of a registered broker."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@dataclass(slots=True)
class BrokerFeature:
    """One feature a registered broker supports."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@dataclass(slots=True)
class RegisterBrokerRecord(Message, versions="0-4", flexible="0+", api_key=0):
    """A broker has joined. Version 4 (Kafka 4.3) only adds a tagged field, which is skipped."""

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean("2+")
    incarnation_id: bytes = uuid()
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable="0+", default=None)
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid, "3+", tag=0)


@dataclass(slots=True)
class TopicRecord(Message, versions="0", flexible="0+", api_key=2):
    """A topic exists; its partitions follow."""

    name: str = string()
    topic_id: bytes = uuid()


@dataclass(slots=True)
class PartitionRecord(Message, versions="0-2", flexible="0+", api_key=3):
    """A partition exists, with this state. `directories`: the log directory of each replica."""

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    replicas: list[int] = array(int32)
    isr: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[bytes] = array(uuid, "1+")
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=1)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=2)


@dataclass(slots=True)
class ConfigRecord(Message, versions="0", flexible="0+", api_key=4):
    """A configuration was set, or with a null value deleted."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+", default=None)


@dataclass(slots=True)
class PartitionChangeRecord(Message, versions="0-2", flexible="0+", api_key=5):
    """What changed of a partition. null, and for `leader` -2, means: as before. Naming a leader raises the leader epoch."""

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = array(int32, nullable="0+", default=None, tag=0)
    leader: int = int32(default=-2, tag=1)
    replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=2)
    removing_replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=3)
    adding_replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=4)
    leader_recovery_state: int = int8(default=-1, tag=5)
    directories: list[bytes] | None = array(uuid, "1+", nullable="1+", default=None, tag=8)
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=6)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=7)


@dataclass(slots=True)
class RemoveTopicRecord(Message, versions="0", flexible="0+", api_key=9):
    """A topic and all its partitions are gone."""

    topic_id: bytes = uuid()


@dataclass(slots=True)
class FeatureLevelRecord(Message, versions="0", flexible="0+", api_key=12):
    """The finalized level of a feature. A metadata log opens with the one of `metadata.version`."""

    name: str = string()
    feature_level: int = int16()


@dataclass(slots=True)
class ProducerIdsRecord(Message, versions="0", flexible="0+", api_key=15):
    """All producer ids below `next_producer_id` belong to blocks that were given to a broker."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


MetadataRecord: TypeAlias = (
    RegisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
)

_KINDS: Final[dict[int, type[MetadataRecord]]] = {
    kind.API_KEY: kind
    for kind in (
        RegisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        RemoveTopicRecord,
        FeatureLevelRecord,
        ProducerIdsRecord,
    )
}

WRITTEN: Final[dict[type[MetadataRecord], tuple[tuple[int, int], ...]]] = {
    RegisterBrokerRecord: ((30, 4), (17, 3), (8, 2), (0, 1)),
    PartitionRecord: ((23, 2), (17, 1)),
    PartitionChangeRecord: ((23, 2), (17, 1)),
}
"""From which level of `metadata.version` on a kind is written in which version, the newest first; all else is version 0. Directories come
with 17 (3.7-IV2), eligible leader replicas, of which one node has none, with 23 (4.0-IV1)."""


def encode_record(record: MetadataRecord, metadata_level: int = METADATA_LEVEL) -> bytes:
    """The value of the record in a log of this level of `metadata.version`."""
    version = next((version for since, version in WRITTEN.get(type(record), ()) if metadata_level >= since), 0)
    return uvarint(FRAME_VERSION) + uvarint(record.API_KEY) + uvarint(version) + encode(record, version)


def decode_record(value: Buffer) -> MetadataRecord | None:
    """The record of a value in the log; None for a kind that we do not use. Raises ProtocolError."""
    try:
        frame, pos = read_uvarint(value, 0)
        kind, pos = read_uvarint(value, pos)
        version, pos = read_uvarint(value, pos)
    except (Bad, IndexError) as error:
        raise MalformedMessage("metadata record", "header", len(value), "cut short") from error
    if frame != FRAME_VERSION:
        raise MalformedMessage("metadata record", "frame version", 0, f"{frame} is unknown")
    record_class = _KINDS.get(kind)
    if record_class is None:
        return None
    if version > record_class.MAX_VERSION:
        raise MalformedMessage(record_class.__name__, "version", pos, f"{version} is newer than this broker")
    return decode(record_class, memoryview(value)[pos:], version)

"""The records of `__cluster_metadata-0` that the catalog is made of, as they stand in a log of one node.

Rules that hold inside:
- A kind of record that we do not use decodes to None; a damaged one of a kind that we use raises `ProtocolError`, which stops the start.
- Records are written in the versions of the log's `metadata.version`, which is what its readers know.
"""

from __future__ import annotations

from typing import Final, TypeAlias, cast

from ottla.broker.cluster.features import METADATA_LEVEL
from ottla.broker.cluster.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.broker.cluster.record_frames import decode_record as decode_any
from ottla.broker.cluster.record_frames import encode_record as encode_in_version
from ottla.broker.cluster.record_frames import read_frame
from ottla.broker.cluster.record_versions import version_of
from ottla.protocol.wire import Buffer

__all__ = [
    "ConfigRecord",
    "FeatureLevelRecord",
    "MetadataRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RegisterBrokerRecord",
    "RemoveTopicRecord",
    "TopicRecord",
    "decode_record",
    "encode_record",
]

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

_USED: Final = frozenset(
    kind.API_KEY
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
)


def encode_record(record: MetadataRecord, metadata_level: int = METADATA_LEVEL) -> bytes:
    """The value of the record in a log of this level of `metadata.version`."""
    return encode_in_version(record, version_of(record, metadata_level))


def decode_record(value: Buffer) -> MetadataRecord | None:
    """The record of a value in the log; None for a kind that we do not use. Raises ProtocolError."""
    kind, _, _ = read_frame(value)
    return cast(MetadataRecord, decode_any(value)[0]) if kind in _USED else None

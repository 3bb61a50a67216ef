"""The records of `__share_group_state`: the encoding of their keys and values, byte for byte as in Kafka.

A snapshot has the whole state of a share partition, an update has what changed since the last record; a snapshot without a value deletes
the state. Source: Kafka's ShareCoordinatorRecordHelpers; `ottla.protocol.share_log` has the schemas.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.share.persister import SharePartitionKey
from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import Buffer, decode, encode_prefixed, read_prefix
from ottla.protocol.share_log import (
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)


@dataclass(frozen=True, slots=True)
class ShareRecord:
    """A record of `__share_group_state`: a snapshot or an update of one share partition's state. The value None deletes the state."""

    key: SharePartitionKey
    value: ShareSnapshotValue | ShareUpdateValue | None


def encode_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Return the encoded key and value of a record of `__share_group_state`; the value is None if the record deletes the state."""
    if isinstance(record.value, ShareUpdateValue):
        return encode_prefixed(ShareUpdateKey(*record.key), SHARE_UPDATE), encode_prefixed(record.value, 0)
    key = encode_prefixed(ShareSnapshotKey(*record.key), SHARE_SNAPSHOT)
    return key, None if record.value is None else encode_prefixed(record.value, 0)


def decode_record(key: Buffer | None, value: Buffer | None) -> ShareRecord | None:
    """Decode a record of `__share_group_state`; return None if its key type is unknown. Raises ProtocolError if a record of a known type
    cannot be decoded."""
    if key is None:
        raise ProtocolError("a record of __share_group_state without a key")
    key_type, body = read_prefix(key)
    if key_type not in {SHARE_SNAPSHOT, SHARE_UPDATE}:
        return None
    found = decode(ShareSnapshotKey, body, 0) if key_type == SHARE_SNAPSHOT else decode(ShareUpdateKey, body, SHARE_UPDATE)
    share_partition = SharePartitionKey(found.group_id, found.topic_id, found.partition)
    if value is None:
        if key_type == SHARE_UPDATE:
            raise ProtocolError("an update of share state without a value")
        return ShareRecord(share_partition, None)
    version, body = read_prefix(value)
    if key_type == SHARE_SNAPSHOT:
        return ShareRecord(share_partition, decode(ShareSnapshotValue, body, version))
    return ShareRecord(share_partition, decode(ShareUpdateValue, body, version))

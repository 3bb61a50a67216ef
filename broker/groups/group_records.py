"""The records of `__consumer_offsets`: what a key and a value look like, byte for byte as Kafka writes them.

Rules that hold here:

* A key is a type (i16) and the fields of that type, never flexible, without tags. A value is a version (i16) and the body of that
  version; no value is a tombstone.
* Every version Kafka ever wrote is readable. Written are the versions of Kafka 4.1: OffsetCommitValue 4, or 1 when the commit names its own
  expiry (an OffsetCommit of version 2 to 4); GroupMetadataValue 3; keys of type 1 and 2, and those of consumer groups, which are in
  `consumer_records`.
* A key type that is not known is not an error: newer brokers write more of them. It is None to whoever reads it, and stays in the log.

Source: KAFKA group-coordinator message schemas (those of offsets are in `ottla.protocol.offset_log`; GroupMetadataKey, GroupMetadataValue),
GroupCoordinatorRecordHelpers.
"""

from dataclasses import dataclass

from ottla.broker.groups.consumer_records import CONSUMER_CLASSES, ConsumerKey, ConsumerValue
from ottla.protocol.errors import ProtocolError
from ottla.protocol.offset_log import NO_EXPIRY, OFFSET_COMMIT, OFFSET_COMMIT_V0, OffsetCommitKey, OffsetCommitValue
from ottla.protocol.schema import Buffer, Message, array, bytes_, decode, encode_prefixed, int32, int64, read_prefix, string, wire_struct

GROUP_METADATA = 2


@wire_struct
class GroupMetadataKey(Message, versions="2"):
    """Which classic group."""

    group: str = string()


@wire_struct
class MemberMetadata:
    """One member as the group's last leader saw it. Timeouts are in milliseconds."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: Buffer = bytes_()
    assignment: Buffer = bytes_()


@wire_struct
class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """One generation of a classic group. An empty group has no members and no protocol."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+", default=None)
    leader: str | None = string(nullable="0+", default=None)
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)


Key = OffsetCommitKey | GroupMetadataKey | ConsumerKey
Value = OffsetCommitValue | GroupMetadataValue | ConsumerValue

_CLASSES: dict[int, tuple[type[Key], type[Value]]] = {
    OFFSET_COMMIT_V0: (OffsetCommitKey, OffsetCommitValue),
    OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    GROUP_METADATA: (GroupMetadataKey, GroupMetadataValue),
    **CONSUMER_CLASSES,
}
_KEY_TYPES: dict[type[Key], int] = {key_class: key_type for key_type, (key_class, _) in _CLASSES.items()}
"""The highest type of each key: offsets are written under type 1."""


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One key with its value, or with None: the key is forgotten."""

    key: Key
    value: Value | None


def version_written(value: Value) -> int:
    """The version in which Kafka 4.1 writes this value."""
    if isinstance(value, GroupMetadataValue):
        return 3
    if not isinstance(value, OffsetCommitValue):
        return 0
    return 4 if value.expire_timestamp == NO_EXPIRY else 1


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """The key's and the value's bytes; None for a tombstone."""
    key = encode_prefixed(record.key, _KEY_TYPES[type(record.key)])
    return key, None if record.value is None else encode_prefixed(record.value, version_written(record.value))


def decode_record(key: Buffer | None, value: Buffer | None) -> GroupRecord | None:
    """Read one record; None when its key type is unknown. Raises ProtocolError when a known type cannot be read."""
    if key is None:
        raise ProtocolError("a record of __consumer_offsets without a key")
    key_type, key_body = read_prefix(key)
    classes = _CLASSES.get(key_type)
    if classes is None:
        return None
    key_class, value_class = classes
    decoded_key = decode(key_class, key_body, key_type)
    if value is None:
        return GroupRecord(decoded_key, None)
    version, value_body = read_prefix(value)
    return GroupRecord(decoded_key, decode(value_class, value_body, version))

"""The records of `__consumer_offsets`: the encoding of keys and values, byte for byte as in Kafka.

Invariants:

* A key is a type (i16) and the fields of that type, never flexible and without tags. A value is a version (i16) and the body of that
  version. A record without a value is a tombstone.
* Every version that Kafka ever wrote can be read. The versions written are Kafka 4.1's: OffsetCommitValue 4, or 1 for a commit with its own
  expiry (an OffsetCommit of version 2 to 4); GroupMetadataValue 3; keys of type 1 and 2, and those of consumer, share and streams groups.
* An unknown key type is not an error, because newer brokers write more of them. It is decoded as None and stays in the log.

Source: Kafka's group-coordinator message schemas (GroupMetadataKey, GroupMetadataValue; `ottla.protocol` has the others in `offset_log`,
`consumer_group_log`, `share_group_log` and `streams_group_log`, because the audit reads them too), GroupCoordinatorRecordHelpers.
"""

from dataclasses import dataclass

from ottla.protocol.consumer_group_log import CONSUMER_CLASSES, ConsumerKey, ConsumerValue
from ottla.protocol.errors import ProtocolError
from ottla.protocol.offset_log import NO_EXPIRY, OFFSET_COMMIT, OFFSET_COMMIT_V0, OffsetCommitKey, OffsetCommitValue
from ottla.protocol.schema import Buffer, Message, array, bytes_, decode, encode_prefixed, int32, int64, read_prefix, string, wire_struct
from ottla.protocol.share_group_log import SHARE_CLASSES, ShareKey, ShareValue
from ottla.protocol.streams_group_log import STREAMS_CLASSES, StreamsKey, StreamsValue

GROUP_METADATA = 2


@wire_struct
class GroupMetadataKey(Message, versions="2"):
    """The key of the record that stores a classic group."""

    group: str = string()


@wire_struct
class MemberMetadata:
    """One member in the record of a classic group's generation. Timeouts are in ms."""

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
    """The value of the record that stores one generation of a classic group. An empty group has no members and no protocol."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+", default=None)
    leader: str | None = string(nullable="0+", default=None)
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)


Key = OffsetCommitKey | GroupMetadataKey | ConsumerKey | ShareKey | StreamsKey
Value = OffsetCommitValue | GroupMetadataValue | ConsumerValue | ShareValue | StreamsValue

_CLASSES: dict[int, tuple[type[Key], type[Value]]] = {
    OFFSET_COMMIT_V0: (OffsetCommitKey, OffsetCommitValue),
    OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    GROUP_METADATA: (GroupMetadataKey, GroupMetadataValue),
    **CONSUMER_CLASSES,
    **SHARE_CLASSES,
    **STREAMS_CLASSES,
}
_KEY_TYPES: dict[type[Key], int] = {key_class: key_type for key_type, (key_class, _) in _CLASSES.items()}
"""By key class, the type (first field of the key) that is written. For OffsetCommitKey, which has types 0 and 1, it is 1."""


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A record of `__consumer_offsets`: a key with its value; the value None is a tombstone, which deletes the key."""

    key: Key
    value: Value | None


def version_written(value: Value) -> int:
    """Return the schema version in which Kafka 4.1, and so this broker, writes this value."""
    if isinstance(value, GroupMetadataValue):
        return 3
    if not isinstance(value, OffsetCommitValue):
        return 0
    return 4 if value.expire_timestamp == NO_EXPIRY else 1


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return the bytes of the record's key and value; the value is None for a tombstone."""
    key = encode_prefixed(record.key, _KEY_TYPES[type(record.key)])
    return key, None if record.value is None else encode_prefixed(record.value, version_written(record.value))


def decode_record(key: Buffer | None, value: Buffer | None) -> GroupRecord | None:
    """Decode one record; None if its key type is unknown. Raises ProtocolError if a known type cannot be decoded."""
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

"""Encodes a metadata record as a log record's value, and decodes it (Kafka's `MetadataRecordSerde`).

A value is: unsigned varint frame version (always 1), unsigned varint kind, unsigned varint version, then the body in the flexible encoding.
The log record has no key.

Invariant: an undecodable record is an error and is never skipped, because without it this node's state would differ from the controllers'.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.cluster.metadata_records import KINDS, MetadataRecord
from ottla.protocol.errors import MalformedMessage, ProtocolError
from ottla.protocol.schema import Buffer, decode, encode
from ottla.protocol.wire import Bad, read_uvarint, uvarint

FRAME_VERSION: Final = 1
_SHORT_MAX: Final = 0x7FFF


class UnknownRecord(ProtocolError):
    """A record type, or a version of one, that this broker does not know: a newer Kafka wrote it."""

    def __init__(self, kind: int, version: int) -> None:
        known = KINDS.get(kind)
        name = f"of kind {kind}" if known is None else known.__name__
        super().__init__(f"metadata record {name}, version {version}: not known to this broker")
        self.kind = kind
        self.version = version


def encode_record(record: MetadataRecord, version: int) -> bytes:
    """Return the metadata record as the value of a log record. Raises ValueError for a version that the record's type does not have,
    EncodeError for field values that cannot be encoded.
    """
    return uvarint(FRAME_VERSION) + uvarint(record.API_KEY) + uvarint(version) + encode(record, version)


def read_frame(value: Buffer) -> tuple[int, int, memoryview]:
    """Return the kind (the type number) and the version of the metadata record in the value of a log record, and the bytes of its body.
    Raises ProtocolError if the value is truncated or has an unknown frame version."""
    numbers, pos = [], 0
    try:
        for _ in range(3):
            number, pos = read_uvarint(value, pos)
            if number > _SHORT_MAX:
                raise MalformedMessage("metadata record", "header", pos, f"{number} is too large")
            numbers.append(number)
    except (Bad, IndexError) as error:
        raise MalformedMessage("metadata record", "header", len(value), "cut short") from error
    frame, kind, version = numbers
    if frame != FRAME_VERSION:
        raise MalformedMessage("metadata record", "frame version", 0, f"{frame} is unknown")
    return kind, version, memoryview(value)[pos:]


def decode_record(value: Buffer) -> tuple[MetadataRecord, int]:
    """Return the metadata record in the value of a log record, and its version. Raises `UnknownRecord` for an unknown record type or
    version, another ProtocolError for a corrupt value."""
    kind, version, body = read_frame(value)
    record_class = KINDS.get(kind)
    if record_class is None or version > record_class.MAX_VERSION:
        raise UnknownRecord(kind, version)
    return decode(record_class, body, version), version

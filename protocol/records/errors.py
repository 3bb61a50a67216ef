"""Errors in record batches. Any other exception of these modules is a bug.

A broker maps them to Kafka's codes: `CorruptBatch` to CORRUPT_MESSAGE, `BatchTooLarge` to MESSAGE_TOO_LARGE, `InvalidRecord` to
INVALID_RECORD.
"""

from __future__ import annotations

from ottla.protocol.errors import ProtocolError


class RecordsError(ProtocolError):
    """The bytes of a batch are invalid."""


class CorruptBatch(RecordsError):
    """Damaged bytes: inconsistent sizes, a wrong CRC, a compressed section that cannot be decompressed."""


class UnknownCodec(RecordsError):
    """The attributes name a compression codec that does not exist (ids 5 to 7)."""


class BatchTooLarge(CorruptBatch):
    """The records would decompress to more bytes than the caller allows, or are in too many blocks; no more than that was allocated."""


class InvalidRecord(RecordsError):
    """The batch is undamaged, but a count, length, varint or control key in it violates the format."""

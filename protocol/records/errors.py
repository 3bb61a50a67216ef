"""What can be wrong with a batch of records. Everything else that these modules raise is a bug of ours.

Callers that answer a client map the kinds to Kafka's codes: `CorruptBatch` is CORRUPT_MESSAGE, `BatchTooLarge` MESSAGE_TOO_LARGE,
`InvalidRecord` INVALID_RECORD.
"""

from __future__ import annotations

from ottla.protocol.errors import ProtocolError


class RecordsError(ProtocolError):
    """The bytes of a batch are not what they claim to be."""


class CorruptBatch(RecordsError):
    """Damaged bytes: sizes that contradict each other, a wrong CRC, a compressed section that does not decompress."""


class UnknownCodec(RecordsError):
    """The attributes name a compression codec that does not exist (ids 5 to 7)."""


class BatchTooLarge(CorruptBatch):
    """The compressed section would give more bytes than the caller allows; nothing beyond that limit was allocated."""


class InvalidRecord(RecordsError):
    """An undamaged batch whose content breaks a rule of the format: counts, lengths, varints, control keys."""

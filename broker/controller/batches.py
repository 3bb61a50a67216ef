"""Limits the number of metadata records of one request, because they are written and read as one batch (Kafka's
`MAX_RECORDS_PER_USER_OP`)."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final

from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

RECORDS_PER_REQUEST_MAX: Final = 10_000
"""The maximum number of metadata records of one request. At some 300 bytes per record, the records stay near 3 MB; a batch of the metadata
log may have 8 MiB.
"""

TOO_LARGE: Final = "Unable to perform excessively large batch operation."


def check_size(records: Sized) -> None:
    """Raise Rejected (POLICY_VIOLATION) if `records`, the metadata records of one request, are more than RECORDS_PER_REQUEST_MAX."""
    if len(records) > RECORDS_PER_REQUEST_MAX:
        raise Rejected(ErrorCode.POLICY_VIOLATION, TOO_LARGE)

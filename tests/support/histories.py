"""Makes sends of a client's history and stored records of a log, with defaults for all fields that a test does not need."""

from __future__ import annotations

from typing import Any

from ottla.broker.testing.contents import Stored, Visibility
from ottla.broker.testing.history import Send
from ottla.protocol.error_codes import ErrorCode


def send(value: bytes, offset: int = -1, **changes: Any) -> Send:
    given: dict[str, Any] = {
        "at_ms": 0,
        "connection": 1,
        "client_id": "app",
        "transactional_id": None,
        "topic": "t",
        "partition": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "acks": -1,
        "records": ((None, value),),
        "error": ErrorCode.NONE,
        "offset": offset,
        "seen": True,
        "faults": (),
    }
    return Send(**{**given, **changes})


def stored(value: bytes, offset: int, outcome: Visibility = Visibility.PLAIN, producer_id: int = -1, epoch: int = -1) -> Stored:
    return Stored("t", 0, offset, None, value, producer_id, epoch, -1, outcome)

"""What an operation of a machine decided: records to append, and the response to give once they are durable.

The machine changes nothing itself (decide, append, apply, reply): the runtime appends `records`, applies them, and releases `response`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

RecordT = TypeVar("RecordT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class Effects(Generic[RecordT, ResponseT]):
    """`records` in the order they are to be appended (one batch, all or nothing); `response` is released when they are durable.

    With no records the response still waits behind earlier writes of the same machine.
    """

    records: Sequence[RecordT]
    response: ResponseT

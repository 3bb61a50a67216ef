"""The result of an operation on a coordinator's state machine: records to append, and a response to send once they are durable.

The operation itself changes no state (decide, append, apply, reply): the runtime appends `records`, applies them and then
releases `response`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

RecordT = TypeVar("RecordT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class Effects(Generic[RecordT, ResponseT]):
    """The decision of one operation. `records` are appended in this order, as one batch; `response` is released when they are durable.

    A response without records is held back, too, until the earlier writes of the same state machine are durable.
    """

    records: Sequence[RecordT]
    response: ResponseT

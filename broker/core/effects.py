"""The result of an operation on the state of a coordinator or of the controller: records to append, and a response to send once the records
are durable.

The operation itself changes no state (decide, append, apply, reply): the runtime appends `records`, applies them and then sends `response`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

RecordT = TypeVar("RecordT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class Effects(Generic[RecordT, ResponseT]):
    """The decision of one operation on the state of a coordinator or of the controller. `records` are appended in this order, as one batch;
    `response` is sent when they are durable.

    A response without records also waits until the earlier writes of the same state machine are durable, because it may reveal them.
    """

    records: Sequence[RecordT]
    response: ResponseT

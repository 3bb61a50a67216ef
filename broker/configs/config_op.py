"""One change of one setting, as in AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class OpType(IntEnum):
    """An operation on one setting in IncrementalAlterConfigs (Kafka's `AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigOp:
    """One change of one setting. `op` is the number of the operation in the client's request; it may not be a valid `OpType`. `value` is
    None only for DELETE.
    """

    name: str
    op: int
    value: str | None

"""One change of one setting, as AlterConfigs and IncrementalAlterConfigs ask for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class OpType(IntEnum):
    """What an incremental change does to a key (Kafka's `AlterConfigOp.OpType`)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigOp:
    """One change: `op` as the client sent it, not yet known to be an OpType; `value` None only for DELETE."""

    name: str
    op: int
    value: str | None

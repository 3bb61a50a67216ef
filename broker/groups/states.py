"""The states of a classic group and the moves between them.

Rules that hold here:

* The names are the ones the wire shows (ListGroups, DescribeGroups).
* `MOVES` is the whole truth about which move is legal (Kafka: ClassicGroupState.validPreviousStates). A group never changes state but
  through it; a group that is read back from the log is the one exception, because its record is the outcome of moves that were checked
  before it was written.
"""

from enum import StrEnum
from typing import NamedTuple


class ClassicState(StrEnum):
    """Where a classic group stands between two generations."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MOVES: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset({ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}
assert MOVES.keys() == set(ClassicState), "every state has a row"


class Now(NamedTuple):
    """The time as the machines see it: deadlines are monotonic, what is written to the log is wall-clock time. Both in milliseconds."""

    mono_ms: int
    wall_ms: int

"""The states of a classic group and the transitions between them.

Invariants:

* The names are those on the wire (ListGroups, DescribeGroups).
* `VALID_TRANSITIONS` has all legal transitions (Kafka's ClassicGroupState.validPreviousStates). A group changes state only by them. A
  loaded group is the exception, because its record is the result of transitions that were checked before it was written.
"""

from enum import StrEnum
from typing import NamedTuple


class ClassicState(StrEnum):
    """The state of a classic group, with Kafka's name. PreparingRebalance: members must join; CompletingRebalance: the leader must
    assign."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_TRANSITIONS: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.PREPARING_REBALANCE: frozenset({ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD}),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.DEAD}),
    ClassicState.DEAD: frozenset(),
}
assert VALID_TRANSITIONS.keys() == set(ClassicState), "every state has a row"


class Now(NamedTuple):
    """The current time in ms, by two clocks: monotonic for deadlines, wall clock for times in the log."""

    mono_ms: int
    wall_ms: int

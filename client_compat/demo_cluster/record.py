"""The recording of an act (an experiment of the demo): samples of the cluster's state, the injected faults, and changes of leaders.

Times are wall-clock milliseconds, as for the acknowledgements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar


class State(StrEnum):
    """A broker's state: serving, running but fenced by the controller, paused (SIGSTOP), or not running."""

    SERVES = "serves"
    FENCED = "fenced"
    PAUSED = "stands still"
    DEAD = "dead"


class Kind(StrEnum):
    """The kind of a recorded event: an action on a broker's process, a partition's new leader, or a remark."""

    KILL = "SIGKILL"
    STOP = "stopped"
    PAUSE = "SIGSTOP"
    RESUME = "SIGCONT"
    START = "started"
    LEADER = "leader"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition's state at one moment, as observed. `leader` is None if there is none. `log_ends`: each broker's log end offset, if it
    answered."""

    leader: int | None = None
    leader_epoch: int = -1
    in_sync: tuple[int, ...] = ()
    high_watermark: int | None = None
    log_ends: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Window:
    """What the leaders know of one idempotent producer: its id, its epoch, and its last sequence number in each partition."""

    producer_id: int
    epoch: int
    last_sequences: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster's state at one moment. `sent`, `answered` and `repeated` are counts that each client reports: records sent, records
    acknowledged, records sent again. `absorbed`: how many batches the brokers have recognised as duplicates."""

    at_ms: int
    states: Mapping[int, State] = field(default_factory=dict)
    partitions: Sequence[PartitionView] = ()
    windows: Sequence[Window] = ()
    sent: Sequence[int] = ()
    answered: Sequence[int] = ()
    repeated: Sequence[int] = ()
    absorbed: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """An action on a broker's process, such as a kill, or an observed change, such as a new leader. `broker` is the id of the broker
    concerned."""

    at_ms: int
    kind: Kind
    broker: int | None
    text: str


@dataclass(slots=True)
class Recording:
    """All samples of the cluster's state and all events during one act (an experiment of the demo). `clients` are the clients' names."""

    clients: Sequence[str]
    samples: list[Sample] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def latest(self) -> Sample:
        return self.samples[-1] if self.samples else Sample(now_ms())

    @property
    def began_ms(self) -> int:
        return self.samples[0].at_ms if self.samples else now_ms()


Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Span(Generic[Value]):
    """A period during which a sampled value stays the same."""

    from_ms: int
    to_ms: int
    value: Value


def spans(samples: Sequence[Sample], value_of: Callable[[Sample], Value]) -> list[Span[Value]]:
    """Divide the samples into periods in which `value_of(sample)` stays the same. A period ends at the first sample with another value."""
    found: list[Span[Value]] = []
    for sample in samples:
        value = value_of(sample)
        if found:
            found[-1] = Span(found[-1].from_ms, sample.at_ms, found[-1].value)
        if not found or found[-1].value != value:
            found.append(Span(sample.at_ms, sample.at_ms, value))
    return found


def now_ms() -> int:
    return time.time_ns() // 1_000_000

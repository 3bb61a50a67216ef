"""The recording of an act: samples of the cluster's state, and what was done to it.

Times are wall-clock milliseconds, as for the acknowledgements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar


class State(StrEnum):
    """A broker's state: not running, paused (SIGSTOP), running but fenced, or serving."""

    SERVES = "serves"
    FENCED = "fenced"
    PAUSED = "stands still"
    DEAD = "dead"


class Kind(StrEnum):
    """The kind of an event."""

    KILL = "SIGKILL"
    STOP = "stopped"
    PAUSE = "SIGSTOP"
    RESUME = "SIGCONT"
    START = "started"
    LEADER = "leader"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition. `leader` is None without a leader. `log_ends`: log end offsets of the replicas that answer, by broker."""

    leader: int | None = None
    leader_epoch: int = -1
    in_sync: tuple[int, ...] = ()
    high_watermark: int | None = None
    log_ends: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Window:
    """The leaders' state of one idempotent producer: its last sequence, by partition."""

    producer_id: int
    epoch: int
    last_sequences: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster's state at one moment. `sent`, `answered` and `repeated` are the clients' own counts
    (`client_compat.support.load.Shared`); `absorbed` are batches that brokers recognised as duplicates."""

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
    """An action on the cluster, or an observed change."""

    at_ms: int
    kind: Kind
    broker: int | None
    text: str


@dataclass(slots=True)
class Recording:
    """The recorded samples of the cluster's state, and the recorded events, of one act (an experiment of the demo)."""

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
    """Return the periods of equal values; each lasts until the sample with another value."""
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

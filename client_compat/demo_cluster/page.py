"""Shows the demo's results as a self-contained HTML page: for each act (experiment) a timeline, its events, the lost records, and where
they were found.

Rules:
- The page loads nothing from elsewhere, and needs no script.
- Every colour has a word or a number beside it.
- Everything that comes from a log is escaped.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from client_compat.demo_cluster.judgement import SAMPLES_MAX, Judged
from client_compat.demo_cluster.record import Event, Kind, Sample, State, spans
from client_compat.support.demonstration import Promise
from ottla.spark_jobs.reports.html import template

WIDTH: Final = 1000.0
LEFT: Final = 128.0
RIGHT: Final = 10.0
"""The free width to the right of the time axis, in units of the timeline's SVG picture."""
MARK: Final = 22.0
"""The width of the circle with an event's number on the timeline, in SVG units. Circles that would overlap are drawn in several rows."""
TICKS_MAX: Final = 10
STEPS_S: Final = (0.5, 1, 2, 5, 10, 20, 30, 60)
LABEL_MIN: Final = 14.0
"""The minimum width, in SVG units, of a band of the timeline that shows its leader's number. A narrower band has no room for it."""
BARS: Final = 110
CUT_AT: Final = 4
BAR_LABEL: Final = 30.0
"""The width of the number above a bar, in SVG units. Only bars that are cut because they are too high have a number."""
SHOWN = frozenset({Kind.KILL, Kind.STOP, Kind.PAUSE, Kind.RESUME, Kind.START, Kind.NOTE})
"""The kinds of events that get a number on the timeline. A new leader has none, because a coloured band of the timeline shows the leaders.
"""


@dataclass(frozen=True, slots=True)
class Band:
    """A coloured band of the timeline: a period in which a broker's state, a partition's leader, or a broker's membership in an ISR stays
    the same. `value` is the state or the broker's id; None: no leader, or not in the ISR. `faint` bands: the broker is fenced, or the
    leader is dead and the cluster has not noticed it yet."""

    x: float
    width: float
    value: str | int | None
    faint: bool
    tooltip: str

    @property
    def labelled(self) -> bool:
        return self.width >= LABEL_MIN


@dataclass(frozen=True, slots=True)
class EventMark:
    """An event on the timeline: its number, and the row in which the number is drawn so that it overlaps no other."""

    x: float
    row: int
    number: int
    event: Event


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of the timeline, which shows the acknowledged records of a short period: `kept` and `lost` are heights from 0 to 1. A bar that
    would be higher is cut, and its `label` is the number of records (if there is room)."""

    x: float
    width: float
    kept: float
    lost: float
    tooltip: str
    label: str = ""


@dataclass(slots=True)
class Picture:
    """The computed elements of the timeline of one act (an experiment of the demo)."""

    seconds: float
    ticks: list[tuple[float, str]]
    brokers: dict[int, list[Band]]
    leaders: list[list[Band]]
    in_sync: list[dict[int, list[Band]]]
    marks: list[EventMark]
    bars: list[Bar]
    bar_ms: float
    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    committed: list[tuple[float, float]] = field(default_factory=list)
    """A curve as points (x coordinate, fraction of `count_max`): the sum of all partitions' high watermarks over time. The curve
    `acknowledged` shows the number of acknowledged records in the same way."""
    count_max: int = 1
    count_ends: tuple[int, int] = (0, 0)

    @property
    def mark_rows(self) -> int:
        return max((mark.row for mark in self.marks), default=0) + 1


def render(judged: Sequence[Judged], promises: Sequence[Promise]) -> str:
    """Return the demo's HTML page: a section for each act (experiment), and the statements that the demo had to prove."""
    return template("client_compat.demo_cluster", "page.html.j2").render(
        acts=[(one, picture(one)) for one in judged],
        promises=promises,
        kept=all(promise.kept for promise in promises),
        layout={"width": WIDTH, "left": LEFT, "right": RIGHT, "samples": SAMPLES_MAX},
        leaderless=leaderless_s,
        since=lambda one, at_ms: f"{max(0, at_ms - one.played.recording.began_ms) / 1000:.1f} s",
        State=State,
        kinds=Kind,
    )


def picture(judged: Judged) -> Picture:
    """Compute all elements of the timeline of one act (an experiment of the demo)."""
    recording = judged.played.recording
    samples = recording.samples
    scale = _Scale(recording.began_ms, max([samples[-1].at_ms, *judged.acked_ms[-1:]]))
    nodes, places = list(samples[-1].states), range(judged.played.act.partitions)
    drawn = Picture(
        scale.seconds,
        scale.ticks(),
        {node: _bands(scale, samples, partial(_state_of, node)) for node in nodes},
        [_bands(scale, samples, partial(_leader_of, index)) for index in places],
        [{node: _bands(scale, samples, partial(_in_sync, index, node)) for node in nodes} for index in places],
        _marks(scale, recording.events),
        _bars(scale, judged),
        scale.seconds * 1000 / BARS,
    )
    drawn.count_max = max(1, *(sum(sample.answered) for sample in samples), *map(_committed, samples))
    drawn.count_ends = (sum(recording.latest.answered), _committed(recording.latest))
    drawn.acknowledged = [(scale.x(one.at_ms), sum(one.answered) / drawn.count_max) for one in samples]
    drawn.committed = [(scale.x(one.at_ms), _committed(one) / drawn.count_max) for one in samples]
    return drawn


@dataclass(frozen=True, slots=True)
class _Scale:
    """Converts times to x coordinates of the timeline."""

    from_ms: int
    to_ms: int

    @property
    def seconds(self) -> float:
        return max(0.001, (self.to_ms - self.from_ms) / 1000)

    def x(self, at_ms: float) -> float:
        share = (at_ms - self.from_ms) / 1000 / self.seconds
        return round(LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT), 2)

    def ticks(self) -> list[tuple[float, str]]:
        step = next((one for one in STEPS_S if self.seconds / one <= TICKS_MAX), STEPS_S[-1])
        return [(self.x(self.from_ms + at * step * 1000), f"{at * step:g} s") for at in range(int(self.seconds / step) + 1)]


def _bands(scale: _Scale, samples: Sequence[Sample], value_of: Callable[[Sample], tuple[str | int | None, bool]]) -> list[Band]:
    found = []
    for one in spans(samples, value_of):
        tooltip = f"{(one.from_ms - scale.from_ms) / 1000:.1f} to {(one.to_ms - scale.from_ms) / 1000:.1f} s"
        found.append(Band(scale.x(one.from_ms), round(scale.x(one.to_ms) - scale.x(one.from_ms), 2), *one.value, tooltip))
    return found


def _state_of(node: int, sample: Sample) -> tuple[str | None, bool]:
    state = sample.states.get(node)
    return state, state == State.FENCED


def _leader_of(index: int, sample: Sample) -> tuple[int | None, bool]:
    leader = sample.partitions[index].leader if sample.partitions else None
    return leader, leader is not None and sample.states.get(leader) == State.DEAD


def _in_sync(index: int, node: int, sample: Sample) -> tuple[int | None, bool]:
    return node if sample.partitions and node in sample.partitions[index].in_sync else None, False


def _committed(sample: Sample) -> int:
    return sum(one.high_watermark or 0 for one in sample.partitions)


def _marks(scale: _Scale, events: Sequence[Event]) -> list[EventMark]:
    """Return the events that get a number on the timeline, each placed in the first row where its number overlaps no other."""
    marks: list[EventMark] = []
    ends: list[float] = []
    for number, event in enumerate((one for one in events if one.kind in SHOWN), 1):
        x = scale.x(event.at_ms)
        row = next((row for row, end in enumerate(ends) if end <= x), len(ends))
        ends[row : row + 1] = [x + MARK]
        marks.append(EventMark(x, row, number, event))
    return marks


def _bars(scale: _Scale, judged: Judged) -> list[Bar]:
    """Return a bar for each short period in which records were acknowledged. After a pause, a client receives many acknowledgements at
    once; therefore bars are cut at CUT_AT times the median."""
    step = scale.seconds * 1000 / BARS
    counts, lost = Counter(_slots(scale, step, judged.acked_ms)), Counter(_slots(scale, step, (one.at_ms for one in judged.lost)))
    highest = min(max(counts.values(), default=1), CUT_AT * statistics.median(counts.values() or [1]))
    width, bars, free_at = (WIDTH - LEFT - RIGHT) / BARS, list[Bar](), 0.0
    for slot, count in sorted(counts.items()):
        gone, x = lost[slot], LEFT + slot * width
        tooltip = f"{slot * step / 1000:.1f} s: {count:,} acknowledged" + (f", {gone:,} of them lost" if gone else "")
        labelled = count > highest and x >= free_at
        if labelled:
            free_at = x + BAR_LABEL
        red = min(1.0, gone / highest)
        bar = Bar(
            round(x, 2), round(width * 0.82, 2), min(1.0 - red, (count - gone) / highest), red, tooltip, f"{count:,}" if labelled else ""
        )
        bars.append(bar)
    return bars


def _slots(scale: _Scale, step: float, moments: Iterable[int]) -> list[int]:
    return [min(BARS - 1, max(0, int((at - scale.from_ms) / step))) for at in moments]


def leaderless_s(judged: Judged) -> float:
    """Return the longest time, in seconds, for which any partition had no leader, or a leader that was dead, according to the samples."""
    longest = 0.0
    for index in range(judged.played.act.partitions):
        for one in spans(judged.played.recording.samples, partial(_served, index)):
            longest = longest if one.value else max(longest, (one.to_ms - one.from_ms) / 1000)
    return longest


def _served(index: int, sample: Sample) -> bool:
    leader, dead = _leader_of(index, sample)
    return leader is not None and not dead

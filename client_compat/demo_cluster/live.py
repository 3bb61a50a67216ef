"""Shows the cluster's current state while the demo runs: live tables on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from client_compat.demo_cluster.acts import ACTS, Act
from client_compat.demo_cluster.judgement import Judged
from client_compat.demo_cluster.record import Event, Kind, PartitionView, Recording, Sample, State
from client_compat.support.load import NOT_TOLD

REFRESHES = 8
"""How often the live view is updated, in updates per second."""
EVENTS = 7
WIDE = 140
"""The minimum width of the terminal, in characters, for two tables beside each other."""
PLAIN_MS = 2_000
"""The time between two lines about the cluster's state, in ms, if the output is no terminal."""
STATE_STYLES = {State.SERVES: "green", State.FENCED: "yellow", State.PAUSED: "magenta", State.DEAD: "bold red"}
EVENT_STYLES = {
    Kind.KILL: "bold red",
    Kind.STOP: "red",
    Kind.PAUSE: "magenta",
    Kind.RESUME: "magenta",
    Kind.START: "green",
    Kind.LEADER: "cyan",
}
BROKER_STYLES = {1: "bold blue", 2: "bold magenta", 3: "bold cyan"}
NONE = "–"


@dataclass(slots=True)
class View:
    """Shows a running demo: live tables on a terminal, otherwise lines. `on_sample` and `on_event` are callbacks for `acts.play`."""

    console: Console
    act: Act | None = None
    recording: Recording | None = None
    done: list[Judged] = field(default_factory=list)
    _printed_ms: int = 0

    @property
    def live(self) -> bool:
        return self.console.is_terminal

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.live:
            yield
            return
        with Live(get_renderable=self.render, console=self.console, refresh_per_second=REFRESHES, transient=True):
            yield

    def begin(self, act: Act) -> None:
        self.act, self.recording, self._printed_ms = act, Recording(()), 0
        if not self.live:
            self.console.print(f"\n{title_of(act)}\n{act.what}", highlight=False)

    def on_sample(self, act: Act, recording: Recording) -> None:
        self.recording = recording
        sample = recording.latest
        if not self.live and sample.at_ms - self._printed_ms >= PLAIN_MS:
            self._printed_ms = sample.at_ms
            self.console.print(f"{_at(recording, sample.at_ms)}  {plain(recording)}", highlight=False, soft_wrap=True)

    def on_event(self, act: Act, recording: Recording, event: Event) -> None:
        if not self.live:
            self.console.print(f"{_at(recording, event.at_ms)}  {event.kind:8} {event.text}", highlight=False, soft_wrap=True)

    def end(self, judged: Judged) -> None:
        self.done.append(judged)
        line = f"{judged.played.act.title}: acknowledged {judged.acks.acked:,}, lost {judged.acks.lost:,}, doubled {judged.acks.doubled:,}"
        self.console.print(Text(line, style="bold red" if judged.acks.lost else "bold green"), highlight=False)

    def render(self) -> RenderableType:
        if self.act is None or self.recording is None:
            return Text("")
        sample = self.recording.latest
        if not sample.states:
            return Panel(Text("starting a controller and three brokers…", style="dim"), title=title_of(self.act), title_align="left")
        wide = self.console.width >= WIDE
        parts = (
            Text(f"{self.act.what}\n", style="dim"),
            beside(brokers(sample), partitions(self.act.key, sample), wide=wide),
            beside(clients(self.recording, sample), windows(self.act.partitions, sample), wide=wide),
            events(self.recording),
        )
        return Panel(Group(*parts), title=title_of(self.act), title_align="left", subtitle=_at(self.recording, sample.at_ms).strip())


def title_of(act: Act) -> str:
    return f"Act {ACTS.index(act) + 1} of {len(ACTS)}: {act.title}"


def _at(recording: Recording, at_ms: int) -> str:
    return f"{max(0, at_ms - recording.began_ms) / 1000:5.1f} s"


def beside(left: Table, right: Table, *, wide: bool) -> RenderableType:
    """Arrange two tables beside each other if `wide`, otherwise below each other."""
    if not wide:
        return Group(left, right, Text(""))
    both = Table.grid(padding=(0, 5, 0, 0))
    both.add_row(left, right)
    return Group(both, Text(""))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left", no_wrap=True)
    return table


def brokers(sample: Sample) -> Table:
    table = _table("Brokers", "broker", "state", "leads")
    for node_id, state in sample.states.items():
        leads = [str(index) for index, one in enumerate(sample.partitions) if one.leader == node_id]
        table.add_row(_broker(node_id), Text(state, style=STATE_STYLES[state]), ",".join(leads) or NONE)
    return table


def partitions(topic: str, sample: Sample) -> Table:
    table = _table("Partitions", "", "leader", "epoch", "in sync", "high watermark", *(f"end at {node_id}" for node_id in sample.states))
    for index, one in enumerate(sample.partitions):
        ends = [number(one.log_ends.get(node_id)) for node_id in sample.states]
        leader = _leader(one, sample)
        in_sync = Text(" ").join(_broker(node_id) if node_id in one.in_sync else Text("·", style="dim") for node_id in sample.states)
        table.add_row(f"{topic}-{index}", leader, str(one.leader_epoch), in_sync, number(one.high_watermark), *ends)
    return table


def clients(recording: Recording, sample: Sample) -> Table:
    table = _table("Clients", "", "sent", "acknowledged", "in flight", "sent again")
    for name, sent, answered, repeated in zip(recording.clients, sample.sent, sample.answered, sample.repeated, strict=False):
        again = "not told" if repeated == NOT_TOLD else f"{repeated:,}"
        table.add_row(name, f"{sent:,}", f"{answered:,}", f"{sent - answered:,}", again)
    return table


def windows(count: int, sample: Sample) -> Table:
    """Return a table of the idempotent producers whose state the leaders have: id, epoch, and last sequence in each of the `count`
    partitions. A leader recognises duplicate batches by these values."""
    table = _table("Producers' windows", "producer id", "epoch", *(f"sequence in {index}" for index in range(count)), "retries absorbed")
    for at, one in enumerate(sample.windows):
        sequences = [number(one.last_sequences.get(index)) for index in range(count)]
        table.add_row(str(one.producer_id), str(one.epoch), *sequences, f"{sample.absorbed:,}" if not at else "")
    if not sample.windows:
        table.add_row(Text("none: nobody is idempotent", style="dim"))
    return table


def events(recording: Recording) -> Group:
    lines: Sequence[Event] = recording.events[-EVENTS:]
    rows = [Text(f"{_at(recording, one.at_ms)}  {one.kind:8} {one.text}", style=EVENT_STYLES.get(one.kind, "")) for one in lines]
    return Group(*rows, *[Text("")] * (EVENTS - len(rows)))


def plain(recording: Recording) -> str:
    """Return the newest sample of the recording as one line of text: progress of the clients, states of the brokers, and partitions."""
    sample = recording.latest
    states = ", ".join(f"{node_id} {state}" for node_id, state in sample.states.items())
    places = "; ".join(f"{index}: {_plain_partition(one)}" for index, one in enumerate(sample.partitions))
    flight = sum(sample.sent) - sum(sample.answered)
    sequences = "; ".join(
        f"producer {one.producer_id}: {', '.join(f'{sequence:,}' for sequence in one.last_sequences.values())}" for one in sample.windows
    )
    progress = f"acknowledged {sum(sample.answered):,}, in flight {flight}" + (f"; last sequences of {sequences}" if sequences else "")
    return f"{progress} | brokers: {states} | {places}"


def _plain_partition(one: PartitionView) -> str:
    leader = "led by nobody" if one.leader is None else f"led by {one.leader}"
    return f"{leader}, in sync {' '.join(map(str, one.in_sync)) or 'nobody'}, high watermark {number(one.high_watermark)}"


def _leader(one: PartitionView, sample: Sample) -> Text:
    if one.leader is None:
        return Text("nobody", style="bold red")
    return Text(f"{one.leader}, dead", style="bold red") if sample.states.get(one.leader) == State.DEAD else _broker(one.leader)


def _broker(node_id: int) -> Text:
    return Text(str(node_id), style=BROKER_STYLES.get(node_id, "bold"))


def number(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"

"""The live view of an act of the demo, on a terminal and in a pipe."""

from __future__ import annotations

import io

from rich.console import Console

from client_compat.demo_cluster.acts import ACTS
from client_compat.demo_cluster.live import View
from client_compat.demo_cluster.record import Event, Kind, PartitionView, Recording, Sample, State, Window
from client_compat.support.load import NOT_TOLD

SAMPLE = Sample(
    5_000,
    {1: State.DEAD, 2: State.SERVES, 3: State.PAUSED},
    [PartitionView(2, 7, (2, 3), 1_234, {2: 1_240}), PartitionView(), PartitionView(1, 8)],
    [Window(4_000, 1, {0: 77})],
    sent=(900, 800),
    answered=(890, 800),
    repeated=(NOT_TOLD, 12),
    absorbed=3,
)


def recording() -> Recording:
    found = Recording(("aiokafka", "confluent-kafka"), [Sample(2_000), SAMPLE])
    found.events.append(Event(4_000, Kind.KILL, 1, "broker 1 is killed"))
    return found


def test_terminal_view_shows_brokers_leaders_isr_high_watermarks_and_deduplication_windows() -> None:
    console = Console(width=150, file=io.StringIO(), force_terminal=True, record=True)
    view = View(console)
    view.begin(ACTS[0])
    view.on_sample(ACTS[0], recording())
    console.print(view.render())
    lines = [line.split() for line in console.export_text().splitlines()]
    text = [" ".join(line) for line in lines]
    for words in (
        "1 dead 2",
        "2 serves 0",
        "3 stands still –",
        "safe-0 2 7 · 2 3 1,234 – 1,240 –",
        "nobody -1 · · · –",
        "safe-2 1, dead 8",
    ):
        assert any(words in line for line in text), (words, text)
    for words in ("aiokafka 900 890 10 not told", "confluent-kafka 800 800 0 12", "4000 1 77 – – 3", "2.0 s SIGKILL broker 1 is killed"):
        assert any(words in line for line in text), (words, text)


def test_pipe_output_has_a_line_for_each_event_and_an_occasional_cluster_summary() -> None:
    out = io.StringIO()
    view, found = View(Console(width=150, file=out)), recording()
    view.begin(ACTS[0])
    view.on_event(ACTS[0], found, found.events[0])
    view.on_sample(ACTS[0], found)
    view.on_sample(ACTS[0], found)
    lines = out.getvalue().splitlines()
    assert "  2.0 s  SIGKILL  broker 1 is killed" in lines
    (summary,) = [line for line in lines if "brokers: 1 dead, 2 serves, 3 stands still" in line]
    assert "acknowledged 1,690, in flight 10; last sequences of producer 4000: 77" in summary
    assert "0: led by 2, in sync 2 3, high watermark 1,234; 1: led by nobody, in sync nobody, high watermark –" in summary

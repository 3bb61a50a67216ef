"""Charts of the figures: how many times better Ottla is than each other broker, one bar for each figure.

Rules:
- A bar to the right of 1 means that Ottla is better, whether a higher or a lower figure is better.
- The axis is logarithmic, so that twice and half have the same distance from 1. A whisker is the range of the runs.
- A missing value is shown as a dash.
- Figures that are points of a curve are drawn as curves instead.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter

from client_compat.bench.model import OURS, REFERENCE, Benchmark, Figure, Peer, Results
from client_compat.bench.report import label, sections

COLOURS = {REFERENCE: "#1f4e79", "tansu": "#b5541c", "kfake": "#2e7d4f", "mock": "#8a8a8a"}
OTHER = "#444444"
ROW_INCHES, HEAD_INCHES, WIDTH_INCHES = 0.62, 1.5, 10.0
CURVES_INCHES = 4.2
STYLES = ("-", "--", ":", "-.")
BAR = 0.8
_WORDS = re.compile(r"[a-z0-9]+")
RATIO_MIN, RATIO_MAX = 1 / 64, 256

mpl.rcParams["svg.hashsalt"] = "ottla"  # makes the output reproducible
mpl.rcParams["font.size"] = 9


def times_better(figure: Figure, ratios: Sequence[float]) -> list[float]:
    """Convert ratios of Ottla's value to another broker's so that a value above 1 means that Ottla is better. Ratios of 0 are left out."""
    return [ratio if figure.more_is_better else 1 / ratio for ratio in ratios if ratio > 0]


def write(results: Results, cases: Sequence[Benchmark], peers: Sequence[Peer], directory: Path) -> list[Path]:
    """Write one SVG chart for each section of the benchmark to `directory`, and return the files' paths."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for section in sections(cases):
        rows = [(case, figure) for case in cases if case.section == section for figure in case.figures]
        path = directory / f"bench-{'-'.join(_WORDS.findall(section.lower()))}.svg"
        draw = _curves if any(figure.point for _, figure in rows) else _chart
        draw(section, results, rows, peers).savefig(path, metadata={"Date": None})
        written.append(path)
    return written


Rows = Sequence[tuple[Benchmark, Figure]]


def _chart(section: str, results: Results, rows: Rows, peers: Sequence[Peer]) -> Canvas:
    others = [peer for peer in peers if peer.name != OURS]
    canvas = Canvas(figsize=(WIDTH_INCHES, HEAD_INCHES + ROW_INCHES * len(rows)))
    axes = canvas.add_subplot()
    height = BAR / max(1, len(others))
    for place, peer in enumerate(others):
        _bars(axes, results, rows, peer, (height, (place - (len(others) - 1) / 2) * height))
    axes.axvline(1, color="black", linewidth=1)
    for row, (_, figure) in enumerate(rows):
        if figure.target is not None:
            wanted = figure.target if figure.more_is_better else 1 / figure.target
            axes.plot([wanted, wanted], [row - BAR / 2, row + BAR / 2], color="crimson", linewidth=1.2, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×" if value >= 1 else f"1/{1 / value:g}×"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(rows)), [label(case, figure) for case, figure in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    runs = f"median of {results.runs} interleaved runs, line: their range" if results.runs > 1 else "one run"
    explained = f"Right of 1× Ottla is better. Bar: {runs}. Dotted: the target against Apache Kafka. –: cannot."
    canvas.suptitle(f"{section}: how many times better Ottla is than each\n{explained}", x=0.01, ha="left", fontsize=9.5)
    handles = [Patch(color=COLOURS.get(peer.name, OTHER), label=peer.title) for peer in others]
    canvas.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    canvas.set_layout_engine("constrained")
    return canvas


def _curves(section: str, results: Results, rows: Rows, peers: Sequence[Peer]) -> Canvas:
    """Draw one panel for each curve, with one line for each case and broker. Axes start at 0, so that a flat line looks flat."""
    canvas = Canvas(figsize=(WIDTH_INCHES, CURVES_INCHES))
    names = list(dict.fromkeys(figure.point.curve for _, figure in rows if figure.point))
    for axes, name in zip(canvas.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        points = [(case, figure, figure.point.percent) for case, figure in rows if figure.point and figure.point.curve == name]
        for number, case in enumerate(dict.fromkeys(case.name for case, _, _ in points)):
            for peer, style in zip(peers, STYLES, strict=False):
                found = [(percent, results.median(of, figure, peer.name)) for of, figure, percent in points if of.name == case]
                drawn = [(percent, median) for percent, median in found if median is not None]
                if drawn:
                    whose = case if peer.name == OURS else f"{case}, {peer.title}"
                    axes.plot(*zip(*drawn, strict=True), marker="o", markersize=3.5, linestyle=style, color=f"C{number}", label=whose)
        axes.set_title(f"{name} ({points[0][1].unit})", fontsize=9.5, loc="left")
        axes.set_xlabel("idle, % of all")
        axes.set_ylim(bottom=0)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = canvas.axes[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    canvas.suptitle(f"{section}: what a busy request costs beside what is idle, and what the idle costs", x=0.01, ha="left", fontsize=9.5)
    canvas.set_layout_engine("constrained")
    return canvas


def _bars(axes: Axes, results: Results, rows: Rows, peer: Peer, band: tuple[float, float]) -> None:
    """Draw the bars that compare Ottla with one broker, `peer`. `band` is the height of a bar and its shift within the figure's row."""
    (height, shift), colour = band, COLOURS.get(peer.name, OTHER)
    for row, (case, figure) in enumerate(rows):
        better = times_better(figure, results.ratios(case, figure, peer.name))
        if not better:
            axes.text(1, row + shift, " –", va="center", ha="left", color=colour, fontsize=7)
            continue
        low, middle, high = (min(max(value, RATIO_MIN), RATIO_MAX) for value in (min(better), statistics.median(better), max(better)))
        axes.barh(row + shift, middle - 1, left=1, height=height * 0.9, color=colour)
        axes.plot([low, high], [row + shift] * 2, color="black", linewidth=0.8, alpha=0.7)

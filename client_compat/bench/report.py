"""Write the figures as tables to the screen and in Markdown, and all measurements as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from client_compat.bench.model import OURS, REFERENCE, Benchmark, Figure, Peer, Results

BLANK = "–"


def sections(cases: Sequence[Benchmark]) -> list[str]:
    return list(dict.fromkeys(case.section for case in cases))


def _rows(cases: Sequence[Benchmark], section: str) -> Iterator[tuple[Benchmark, Figure]]:
    for case in cases:
        if case.section == section:
            yield from ((case, figure) for figure in case.figures)


def number(value: float, digits: int) -> str:
    """Format a value with this many decimals, or more if it is too small for them."""
    while value and abs(value) < 10**-digits and digits < 4:
        digits += 1
    return format(value, f",.{digits}f")


def spread(ratios: Sequence[float]) -> str:
    """Format ratios of several runs as their median and range."""
    if not ratios:
        return BLANK
    middle = statistics.median(ratios)
    digits = 3 if middle < 0.1 else 2 if middle < 10 else 0
    ends = f" ({number(min(ratios), digits)}–{number(max(ratios), digits)})" if len(ratios) > 1 else ""
    return number(middle, digits) + ends


def target(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≥' if figure.more_is_better else '≤'} {figure.target:g}"


def figures_table(results: Results, cases: Sequence[Benchmark], section: str, peers: Sequence[Peer]) -> list[list[str]]:
    """Return the medians, with one row for each figure and one column for each broker. The first row is the header."""
    rows = [["", "unit", *(peer.name for peer in peers)]]
    for case, figure in _rows(cases, section):
        medians = [results.median(case, figure, peer.name) for peer in peers]
        rows.append([label(case, figure), figure.unit, *(BLANK if m is None else number(m, figure.digits) for m in medians)])
    return rows


def ratios_table(results: Results, cases: Sequence[Benchmark], section: str, peers: Sequence[Peer]) -> list[list[str]]:
    """Return a table with one row for each figure and one column for each other broker: the median and range over the runs of Ottla's value
    divided by that broker's. The first row is the header."""
    others = [peer for peer in peers if peer.name != OURS]
    rows = [["", "better", "target", *(f"÷ {peer.name}" for peer in others)]]
    for case, figure in _rows(cases, section):
        cells = []
        for peer in others:
            ratios = results.ratios(case, figure, peer.name)
            missed = peer.name == REFERENCE and bool(ratios) and not figure.kept(statistics.median(ratios))
            cells.append(spread(ratios) + (" ✗" if missed else ""))
        rows.append([label(case, figure), "more" if figure.more_is_better else "less", target(figure), *cells])
    return rows


def tables(results: Results, cases: Sequence[Benchmark], section: str, peers: Sequence[Peer]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield title and rows of each table of a section, with only the brokers that were measured for it; `blanks` explains the others."""
    there = [peer for peer in peers if peer.name == OURS or any(_was_measured(results, *row, peer) for row in _rows(cases, section))]
    yield f"{section}: medians of {results.runs} interleaved runs", figures_table(results, cases, section, there)
    if len(there) > 1:
        yield f"{section}: ottla ÷ peer in the same run, median (least–most)", ratios_table(results, cases, section, there)


def _was_measured(results: Results, case: Benchmark, figure: Figure, peer: Peer) -> bool:
    return results.median(case, figure, peer.name) is not None or peer.name in results.failures.get(case.name, {})


def label(case: Benchmark, figure: Figure) -> str:
    """Return the label of a figure's row in the tables."""
    return case.name if len(case.figures) == 1 else f"{case.name}: {figure.name}"


def blanks(results: Results, cases: Sequence[Benchmark], peers: Sequence[Peer]) -> list[str]:
    """Return texts that explain the tables' empty cells: abilities that a peer lacks, and failures."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        for peer in peers:
            for figure in case.figures:
                if reason := case.blank(peer, figure):
                    by_reason.setdefault((peer.name, reason), []).append(label(case, figure))
    lines = [f"{name} {reason}" for name, reason in by_reason]
    for case_name, by_peer in results.failures.items():
        for name, reasons in by_peer.items():
            whole_reason = reasons[0].partition("\n")[0].removesuffix(":")  # the rest is the broker's output, which the JSON contains
            lines.append(f"{name}, {case_name}: failed in {len(reasons)} of {results.runs} runs: {whole_reason}")
    return lines


def screen(results: Results, cases: Sequence[Benchmark], peers: Sequence[Peer]) -> Group:
    parts: list[RenderableType] = []
    for section in sections(cases):
        for title, rows in tables(results, cases, section, peers):
            parts.append(grid(title, rows))
    return Group(*parts, *map(Text, blanks(results, cases, peers)))


def grid(title: str, rows: Sequence[Sequence[str]]) -> Table:
    """Return a table for the screen; the first row is the header."""
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(rows[0]):
        table.add_column(column, justify="right" if index else "left")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def markdown(results: Results, cases: Sequence[Benchmark], peers: Sequence[Peer]) -> str:
    """Return the tables of all sections in Markdown, without a page title."""
    lines: list[str] = []
    for section in sections(cases):
        lines += [f"## {section}", ""]
        for _, rows in tables(results, cases, section, peers):
            lines += [_row(rows[0]), f"| --- |{' ---: |' * (len(rows[0]) - 1)}", *map(_row, rows[1:]), ""]
    if found := blanks(results, cases, peers):
        lines += ["## Blanks", "", *(f"* {line}" for line in found), ""]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def as_json(results: Results) -> str:
    return json.dumps(asdict(results), indent=1)


def from_json(text: str) -> Results:
    """Return the results from the JSON that `as_json` wrote."""
    return Results(**json.loads(text))

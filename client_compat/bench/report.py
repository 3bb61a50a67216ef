"""The figures as a table on the screen, as markdown and as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.table import Table

from client_compat.bench.cases import Case
from client_compat.bench.run import OURS, THEIRS, Results

START_TARGET_S = 0.4
RSS_IDLE_TARGET = 80 * 1024 * 1024
MEBIBYTE = 1024 * 1024
SPEED_COLUMNS = ("case", f"{OURS} records/s", f"{THEIRS} records/s", "ratio", "spread", "target", f"{OURS} CPU s/M", f"{THEIRS} CPU s/M")
PROCESS_COLUMNS = ("process", OURS, THEIRS, "target")


def _speed_rows(results: Results, cases: Sequence[Case]) -> list[list[str]]:
    rows = []
    for case in cases:
        ratios = results.ratios(case)
        rates = [_number(results.median_rate(case, name), ",.0f") for name in (OURS, THEIRS)]
        costs = [_number(results.median_cpu(case, name), ".2f") for name in (OURS, THEIRS)]
        ratio = f"{statistics.median(ratios):.2f}" if ratios else "–"
        spread = f"{min(ratios):.2f} – {max(ratios):.2f}" if ratios else "–"
        rows.append([case.name, *rates, ratio, spread, f"≥ {case.target:.1f}" if case.target else "", *costs])
    return rows


def _process_rows(results: Results) -> list[list[str]]:
    def medians(values: dict[str, list[Any]], scale: float, spec: str) -> list[str]:
        return [_number(statistics.median(values[name]) / scale if values.get(name) else None, spec) for name in (OURS, THEIRS)]

    return [
        ["start to listening, s", *medians(results.start_seconds, 1, ".3f"), f"≤ {START_TARGET_S}"],
        ["resident idle, MiB", *medians(results.rss_idle, MEBIBYTE, ".0f"), f"≤ {RSS_IDLE_TARGET // MEBIBYTE}"],
        ["resident after the load, MiB", *medians(results.rss_loaded, MEBIBYTE, ".0f"), ""],
    ]


def _number(value: float | None, spec: str) -> str:
    return "–" if value is None else format(value, spec)


def missed(results: Results, cases: Sequence[Case]) -> list[str]:
    """Each target that the medians do not reach, in words."""
    short = [case for case in cases if (ratios := results.ratios(case)) and statistics.median(ratios) < case.target]
    lines = [f"{case.name}: {statistics.median(results.ratios(case)):.2f}, wanted {case.target}" for case in short]
    if (start := statistics.median(results.start_seconds[OURS])) > START_TARGET_S:
        lines.append(f"start to listening: {start:.3f} s, wanted {START_TARGET_S} s")
    if (idle := statistics.median(results.rss_idle[OURS])) > RSS_IDLE_TARGET:
        lines.append(f"resident idle: {idle / MEBIBYTE:.0f} MiB, wanted {RSS_IDLE_TARGET // MEBIBYTE} MiB")
    return lines


def tables(results: Results, cases: Sequence[Case], runs: int) -> Group:
    speed = Table(title=f"librdkafka, idempotent: medians of {runs} paired runs on {os.cpu_count()} cores")
    process = Table(title="Process")
    for table, columns, rows in ((speed, SPEED_COLUMNS, _speed_rows(results, cases)), (process, PROCESS_COLUMNS, _process_rows(results))):
        for index, column in enumerate(columns):
            table.add_column(column, justify="right" if index else "left")
        for row in rows:
            table.add_row(*row)
    return Group(speed, process)


def markdown(results: Results, cases: Sequence[Case], runs: int) -> str:
    lines = [f"Medians of {runs} paired runs on {os.cpu_count()} cores ({platform.machine()}, Python {platform.python_version()}).", ""]
    for columns, rows in ((SPEED_COLUMNS, _speed_rows(results, cases)), (PROCESS_COLUMNS, _process_rows(results))):
        lines += [f"| {' | '.join(columns)} |", f"| --- |{' ---: |' * (len(columns) - 1)}"]
        lines += [f"| {' | '.join(row)} |" for row in rows] + [""]
    return "\n".join(lines)


def as_json(results: Results, cases: Sequence[Case], runs: int) -> str:
    """Every single measurement, so that other statistics can be made of them."""
    documents = []
    for case in cases:
        by_broker = {name: [asdict(one) for one in results.measured.get((case.name, name), [])] for name in (OURS, THEIRS)}
        documents.append({**asdict(case), "measured": by_broker, "ratios": results.ratios(case)})
    process = {"start_seconds": results.start_seconds, "rss_idle": results.rss_idle, "rss_loaded": results.rss_loaded}
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    return json.dumps({"runs": runs, "machine": machine, "cases": documents, "process": process}, indent=2)

"""Prints the verdict as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ottla.protocol.printable import printable_name
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.checks.rule import Rule
from ottla.spark_jobs.costs import TopicCosts
from ottla.spark_jobs.deliveries import ShareDeliveries
from ottla.spark_jobs.verdict import DirectoryVerdict, Finding, RuleResult, Verdict, counted


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on standard error within the `with` block, if standard error is a terminal. Yield the function that updates the
    bar: (step, done, total)."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("finding logs", total=None)
        yield lambda step, done, total: bar.update(task, description=step, completed=done, total=total)


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        """Ignore that the reader closed the pipe (`ottla audit | head`). Rich would exit with code 1, but the exit code must be the
        verdict's."""
        with suppress(SystemExit):
            super().on_broken_pipe()


def show(verdict: Verdict, samples: int, console: Console | None = None) -> None:
    """Print the verdict: counts, one row per rule, the findings (at most `samples` of each rule and severity), notes and problems, and the
    headline."""
    out = console or _Terminal()
    names = _names(verdict.directories)
    if any(result.judged for directory in verdict.directories for result in directory.rules.values()):
        out.print(summary(verdict, names))
    for directory, name in zip(verdict.directories, names, strict=True):
        found = [finding for result in directory.rules.values() for finding in result.samples]
        if found and samples:
            out.print(_findings(f"Findings in {name} (the first {samples} of each rule and severity)", found, directory.path))
    for directory, name in zip(verdict.directories, names, strict=True):
        if directory.costs:
            out.print(_costs(f"Cost of transactions in {name}", directory.costs))
        if directory.deliveries:
            out.print(_deliveries(f"Deliveries to share groups in {name}", directory.deliveries))
    for directory, name in zip(verdict.directories, names, strict=True):
        for note in directory.notes:
            out.print(Text(printable_name(f"note: {name}: {note}"), style="dim"), soft_wrap=True)
        for problem in directory.problems:
            out.print(Text(printable_name(f"could not judge: {problem}"), style="yellow"), soft_wrap=True)
    out.print(_last_line(verdict))


def summary(verdict: Verdict, names: list[str] | None = None) -> Table:
    """Return the audit's summary: a column per directory; rows for the counts (partitions, batches, records, …), then a row per rule."""
    table = Table(title="Audit", title_justify="left", header_style="bold")
    table.add_column("")
    for name in names or _names(verdict.directories):
        table.add_column(Text(name), justify="right")  # a Text, because Rich would interpret brackets in a path as markup
    directories = verdict.directories
    for title, counts in (
        ("Topics", [d.topics for d in directories]),
        ("Partitions", [d.partitions for d in directories]),
        ("Segments", [d.segments for d in directories]),
        ("Bytes", [d.size_bytes for d in directories]),
        ("Batches", [d.batches for d in directories]),
        ("Records", [d.records for d in directories]),
        ("Idempotent producers", [d.producers for d in directories]),
    ):
        table.add_row(title, *(f"{count:,}" for count in counts))
    table.add_row(
        "Retries absorbed (broker's count)", *("n/a" if d.retries_absorbed is None else f"{d.retries_absorbed:,}" for d in directories)
    )
    table.add_section()
    for rule in RULES:
        table.add_row(rule.title, *(_cell(d.rules[rule.name], rule) for d in directories))
    return table


def _costs(title: str, costs: list[TopicCosts]) -> Table:
    table = Table(title=Text(title), title_justify="left", header_style="bold")
    for heading in ("Topic", "Committed", "Aborted", "Open", "Aborted bytes", "Length p50, p99, max (ms)", "Readers behind p99, max"):
        table.add_column(heading, justify="left" if heading == "Topic" else "right")
    for cost in costs:
        lengths = [cost.length_ms_p50, cost.length_ms_p99, cost.length_ms_max]
        table.add_row(
            cost.topic,
            f"{cost.committed:,}",
            f"{cost.aborted:,}",
            f"{cost.open:,}",
            f"{cost.aborted_share:.1%}",
            ", ".join("-" if length is None else f"{length:,}" for length in lengths),
            f"{cost.lag_records_p99:,}, {cost.lag_records_max:,} records",
        )
    return table


def _deliveries(title: str, deliveries: list[ShareDeliveries]) -> Table:
    table = Table(title=Text(title), title_justify="left", header_style="bold")
    for heading in ("Group", "Partition", "Start", "Records", "Accepted", "Waiting", "Archived", "Redelivered", "Max."):
        table.add_column(heading, justify="left" if heading in {"Group", "Partition"} else "right")
    for each in deliveries:
        counts = (each.start_offset, each.records, each.accepted, each.waiting, each.archived, each.redelivered, each.deliveries_max)
        place = printable_name(f"{each.topic}-{each.partition}")
        table.add_row(Text(printable_name(each.group_id)), Text(place), *(f"{count:,}" for count in counts))
    return table


def _names(directories: list[DirectoryVerdict]) -> list[str]:
    """Return the last components of the directories' paths if they are unique, and the whole paths otherwise."""
    short = [Path(directory.path).name for directory in directories]
    return short if len(set(short)) == len(short) else [directory.path for directory in directories]


def _cell(result: RuleResult, rule: Rule) -> Text:
    if not result.judged:
        return Text(f"not judged ({rule.needs})" if rule.needs else "not judged", style="dim")
    text = Text(f"{result.violations:,} found", style="bold red") if result.violations else Text("none", style="green")
    if result.warnings:
        text.append(f", {counted(result.warnings, 'warning')}", style="yellow")
    if result.infos:
        text.append(f", {counted(result.infos, 'note')}", style="dim")
    return text


def _findings(title: str, findings: list[Finding], path: str) -> Group:
    """Return each finding's place, kind and evidence as lines of text, and after a rule's last finding its advice. A table's columns would
    be too narrow for the evidence."""
    lines: list[RenderableType] = [Text(title, style="bold")]
    advice = {rule.name: rule.advice for rule in RULES}
    for finding, following in zip(findings, [*findings[1:], None], strict=True):
        style = {"violation": "red", "warning": "yellow", "info": "dim"}[finding.severity]
        file = finding.file.removeprefix(path).lstrip("/")
        evidence = printable_name(", ".join(f"{name} {value}" for name, value in finding.evidence.items() if value not in ("", None)))
        text = f"{finding.severity}, {finding.rule}: {finding.kind}"
        lines.append(Text.assemble("  ", (finding.where, "bold"), "  ", (text, style)))
        lines.append(Padding(Text(f"{file}:{finding.position}\n{evidence}"), (0, 0, 0, 6)))
        if following is None or following.rule != finding.rule:
            lines.append(Padding(Text(f"What to do: {advice[finding.rule]}", style="italic"), (0, 0, 0, 4)))
    return Group(*lines)


def _last_line(verdict: Verdict) -> Text:
    style = {0: "bold green", 1: "bold red", 2: "bold yellow"}[verdict.exit_code]
    return Text(f"{verdict.headline} ({verdict.seconds:.1f} s{f' with {verdict.engine}' if verdict.engine else ''})", style=style)

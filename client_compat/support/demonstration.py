"""Shared parts of the demos: the promises that a demo must keep, a table that compares two runs, and an audit of the brokers' logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.progress import Progress
from rich.table import Table

from ottla.spark_jobs.verdict import Verdict

ROWS_FILE = "flights.tsv"
LOOK_AT = f"{ROWS_FILE} has what was sent, and the brokers and clients have a log (*.log) each. Look again:"
Run = TypeVar("Run")


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise: a statement that the demo must prove, and whether it was proved."""

    text: str
    kept: bool


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The outcome of a demo: its promises (statements that it must prove), and tables of the observed results."""

    promises: Sequence[Promise]
    tables: RenderableType = ""

    @property
    def good(self) -> bool:
        return all(promise.kept for promise in self.promises)

    def show(self, console: Console) -> None:
        console.print(self.tables)
        for promise in self.promises:
            console.print(f"{'[green]✓[/]' if promise.kept else '[bold red]✗[/]'} {promise.text}", highlight=False)


def side_by_side(title: str, runs: Mapping[str, Run], rows: Sequence[tuple[str, Callable[[Run], str]]]) -> Table:
    """Return a table with a column for each run. `rows` has the label of each row and a function that returns its cell for a run."""
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("")
    for name in runs:
        table.add_column(name, justify="right")
    for label, value in rows:
        table.add_row(label, *(value(run) for run in runs.values()))
    return table


def audited(display: Progress, paths: Sequence[Path], **options: object) -> Verdict:
    """Audit the brokers' log directories `paths` for broken Kafka guarantees, and show the progress; return the verdict. `options` are
    those of `ottla.spark_jobs.audit.audit`."""
    from ottla.spark_jobs.audit import audit  # noqa: PLC0415 # the client processes import this module again and need none of it

    bar = display.add_task("audit of the log" if len(paths) == 1 else "audit of the logs", total=None, note="")

    def step(text: str, done: int, total: int) -> None:
        display.update(bar, note=text, completed=done, total=total)

    return audit(paths, progress=step, **options)  # type: ignore[arg-type]  # the callers' keywords are audit's own

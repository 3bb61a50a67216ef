"""Shared parts of the two demos: promises, two runs side by side, the audit of their logs, and the end of the command."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from client_compat.support.command import ottla_command
from client_compat.support.program import or_exit, replace
from ottla.spark_jobs.verdict import Verdict

ROWS_FILE = "flights.tsv"
Run = TypeVar("Run")


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that must hold."""

    text: str
    kept: bool


def told(console: Console, promises: Iterable[Promise]) -> bool:
    """Print each promise; return whether all were kept."""
    kept = True
    for promise in promises:
        console.print(f"{'[green]✓[/]' if promise.kept else '[bold red]✗[/]'} {promise.text}", highlight=False)
        kept = kept and promise.kept
    return kept


def side_by_side(title: str, runs: Mapping[str, Run], rows: Sequence[tuple[str, Callable[[Run], str]]]) -> Table:
    """Make a table with a column for each run and a row for each fact."""
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("")
    for name in runs:
        table.add_column(name, justify="right")
    for label, value in rows:
        table.add_row(label, *(value(run) for run in runs.values()))
    return table


def audited(display: Progress, paths: Sequence[Path], **options: object) -> Verdict:
    """Audit the logs; `options` are those of `ottla.spark_jobs.audit.audit`."""
    from ottla.spark_jobs.audit import audit  # noqa: PLC0415 # the client processes import this module again and need none of it

    bar = display.add_task("audit of the log" if len(paths) == 1 else "audit of the logs", total=None, note="")

    def step(text: str, done: int, total: int) -> None:
        display.update(bar, note=text, completed=done, total=total)

    return audit(paths, progress=step, **options)  # type: ignore[arg-type]  # the callers' keywords are audit's own


def demonstrate(directory: Path, play: Callable[[Console, Path], bool], look_again: Sequence[str]) -> NoReturn:
    """Run the demo in `directory`, and end the program. `look_again` are commands of ottla; `{}` in them stands for the directory."""
    from ottla.spark_jobs.session import CannotJudge  # noqa: PLC0415 # see audited

    console = Console()
    began = time.perf_counter()
    replace(console, directory, ROWS_FILE)
    with or_exit(console, "The demo could not be run", CannotJudge):
        kept = play(console, directory.absolute())
    console.print(f"Everything stays in {directory} (what was sent: {ROWS_FILE}; the brokers' and clients' own words: *.log). Look again:")
    command = ottla_command()
    for words in look_again:
        console.print(f"  {command} {words.format(directory)}", soft_wrap=True)
    console.print(f"[bold]{'As promised' if kept else 'NOT as promised'}[/], in {time.perf_counter() - began:.0f} s.")
    raise typer.Exit(0 if kept else 1)

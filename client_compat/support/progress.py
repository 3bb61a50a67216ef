"""The progress display of every long command of `client_compat`: one line for each task, on a terminal or in a log."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column


def progress(console: Console) -> Progress:
    """Return a progress display whose bars stay on the screen when done. Each task's field `note` is printed at the end of its line."""
    return Progress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=10),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("[dim]{task.fields[note]}[/]", table_column=Column(ratio=1, no_wrap=True)),
        console=console,
    )

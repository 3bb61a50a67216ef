"""`make share-crash`: SIGKILLs under share load as a command."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from client_compat.share_crash.run import ShareCrashRun, share_crash
from client_compat.support import program
from client_compat.support.program import or_exit, replace
from client_compat.support.progress import progress

SEED_MAX = 2**32
MARKER = "broker.log"
SHOWN = 10


def main(
    kills: Annotated[int, typer.Option(min=1, help="SIGKILLs in this run.")] = 100,
    seed: Annotated[int | None, typer.Option(help="Seed of the instants; random, and printed, by default.")] = None,
    directory: Annotated[Path, typer.Option("--dir", help="Where the log goes; an earlier run's is replaced.")] = Path(".share-crash"),
    broker_option: Annotated[list[str] | None, typer.Option(help="A further argument of `ottla serve`; may be repeated.")] = None,
) -> None:
    """SIGKILL the broker at random instants while two members of a share group accept and release records, and restart it at once. No
    record may be delivered again after its acceptance was answered, and none may be lost. Exit code 1 otherwise."""
    console = Console()
    seed = random.randrange(SEED_MAX) if seed is None else seed
    replace(console, directory, MARKER)
    console.print(f"Seed {seed}: `python -m client_compat.share_crash --kills {kills} --seed {seed}` repeats the plan.")
    with or_exit(console, "The broker did not survive"), progress(console) as display:
        bar = display.add_task("SIGKILLs under share load", total=kills, note="")

        def on_kill(run: ShareCrashRun) -> None:
            display.update(bar, completed=run.kills, note="")

        run = share_crash(directory, kills, seed, options=broker_option or (), on_kill=on_kill)
    _print(console, run, directory)
    raise typer.Exit(0 if run.good else 1)


def _print(console: Console, run: ShareCrashRun, directory: Path) -> None:
    table = Table(title=f"{run.kills} SIGKILLs in {run.seconds:.0f} s")
    for column in ("produced", "accepted", "deliveries", "lost", "delivered after acceptance"):
        table.add_column(column, justify="right")
    table.add_row(*(f"{number:,}" for number in (run.produced, run.accepted, run.deliveries, len(run.lost), len(run.again))))
    console.print(table)
    for what, offsets in (("Lost", run.lost), ("Delivered after its acceptance", run.again)):
        for partition, offset in offsets[:SHOWN]:
            console.print(f"[red]{what}: partition {partition}, offset {offset}[/]")
    console.print(f"[green]All as promised.[/] The log stays in {directory}." if run.good else f"[red]Not as promised.[/] See {directory}.")


if __name__ == "__main__":
    program.run(main)

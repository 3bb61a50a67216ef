"""`make crash`: the crash test as a command."""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from client_compat.crash.run import CrashRun, crash
from client_compat.support import program
from client_compat.support.program import or_exit, replace
from client_compat.support.progress import progress

SEED_MAX = 2**32
MARKER = "broker.log"


def main(
    kills: Annotated[int, typer.Option(min=1, help="SIGKILLs in this run.")] = 50,
    seed: Annotated[int | None, typer.Option(help="Seed of the instants; random, and printed, by default.")] = None,
    directory: Annotated[Path, typer.Option("--dir", help="Where log and acknowledgements go; an earlier run's is replaced.")] = Path(
        ".crash"
    ),
    broker_option: Annotated[list[str] | None, typer.Option(help="A further argument of `ottla serve`; may be repeated.")] = None,
) -> None:
    """SIGKILL the broker at random instants under idempotent load from aiokafka and confluent-kafka, restart it at once, and compare
    every acknowledgement with the log: lost 0, doubled 0, every value at the offset its client was told. Exit code 1 when not."""
    console = Console()
    seed = random.randrange(SEED_MAX) if seed is None else seed
    replace(console, directory, MARKER)
    console.print(f"Seed {seed}: `python -m client_compat.crash --kills {kills} --seed {seed}` repeats the plan.")
    with or_exit(console, "The broker did not survive"), progress(console) as display:
        bar = display.add_task("SIGKILLs under load", total=kills, note="")

        def on_kill(run: CrashRun) -> None:
            display.update(bar, completed=min(run.kills, kills), note=f"back in {run.restart_seconds[-1]:.2f} s")

        run = crash(directory, kills, seed, options=broker_option or (), on_kill=on_kill)
    _print(console, run, directory)
    raise typer.Exit(0 if run.verdict.good else 1)


def _print(console: Console, run: CrashRun, directory: Path) -> None:
    verdict = run.verdict
    table = Table(title=f"{run.kills} SIGKILLs ({run.kills_while_starting} while starting) in {run.seconds:.0f} s")
    for column in ("acked", "in the log", "lost", "doubled", "other offset", "out of order", "refused", "unanswered"):
        table.add_column(column, justify="right")
    numbers = (verdict.acked, verdict.in_log, verdict.lost, verdict.doubled, verdict.misplaced, verdict.reordered, verdict.refused)
    table.add_row(*(f"{number:,}" for number in (*numbers, verdict.unanswered)))
    console.print(table)
    console.print(
        f"Back after a kill in {statistics.median(run.restart_seconds):.2f} s (median), {max(run.restart_seconds):.2f} s at most."
    )
    for sample in verdict.samples:
        console.print(f"[red]{sample}[/]")
    console.print(
        f"[green]All as acknowledged.[/] The log stays in {directory}." if verdict.good else f"[red]Not as promised.[/] See {directory}."
    )


if __name__ == "__main__":
    program.run(main)

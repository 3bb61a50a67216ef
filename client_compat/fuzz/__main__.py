"""Command line of `make fuzz`."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from client_compat.fuzz.run import GROWTH_MAX, MEBIBYTE, FuzzRun, fuzz
from client_compat.support import program
from client_compat.support.program import or_exit, replace
from client_compat.support.progress import progress

SEED_MAX = 2**32
MARKER = "broker.log"


def main(
    *,
    seconds: Annotated[int, typer.Option(min=1, help="How long to attack.")] = 300,
    seed: Annotated[int | None, typer.Option(help="Seed of the attacks; random, and printed, by default.")] = None,
    rss_limit_mib: Annotated[int, typer.Option(help="The broker's resident memory must stay below this.")] = 512,
    wait_limit_s: Annotated[float, typer.Option(help="No good client may wait longer than this for an acknowledgement.")] = 5.0,
    locked: Annotated[bool, typer.Option("--locked", help="Attack a broker that asks who its clients are.")] = False,
    failed_logins: Annotated[int, typer.Option(help="So many log-ins fail first, where it is locked.")] = 10_000,
    directory: Annotated[Path, typer.Option("--dir", help="Where all goes; an earlier run's is replaced.")] = Path(".fuzz"),
) -> None:
    """Attack a live broker with spoiled frames, hostile batches, decompression bombs, half frames and slow connections while idempotent
    producers work beside them. Exit code 1 when the broker dies, grows, logs a bug, lets somebody in, or a good client suffers."""
    console = Console()
    run = FuzzRun(
        random.randrange(SEED_MAX) if seed is None else seed,
        locked=locked,
        failed_logins=failed_logins if locked else 0,
        rss_limit=rss_limit_mib * MEBIBYTE,
        wait_limit_s=wait_limit_s,
    )
    replace(console, directory, MARKER)
    console.print(f"Seed {run.seed}, {seconds} s, memory limit {rss_limit_mib} MiB.")
    with or_exit(console, "The run could not be done"), progress(console) as display:
        bar = display.add_task("seconds of attack", total=seconds, note="")

        def on_look(so_far: FuzzRun) -> None:
            note = f"{so_far.counts['frames']:,} frames, {so_far.rss_max / MEBIBYTE:.0f} MiB"
            display.update(bar, completed=int(display.tasks[bar].elapsed or 0), note=note)

        fuzz(directory, seconds, run, on_look=on_look)
        display.update(bar, completed=seconds)
    _print(console, run, directory)
    raise typer.Exit(0 if run.good else 1)


def _print(console: Console, run: FuzzRun, directory: Path) -> None:
    thrown = Table(title=f"Thrown in {run.seconds:.0f} s")
    thrown.add_column("what")
    thrown.add_column("how many", justify="right")
    for what, count in sorted(run.counts.items()):
        thrown.add_row(what, f"{count:,}")
    console.print(thrown)
    verdict = run.verdict
    checks = [
        ("broker's process", "alive" if not run.died else f"DEAD: {run.died}", not run.died),
        ("resident memory at most", f"{run.rss_max / MEBIBYTE:.0f} of {run.rss_limit / MEBIBYTE:.0f} MiB", run.rss_max <= run.rss_limit),
        ("bugs in the broker's log", f"{run.bugs_logged}", run.bugs_logged == 0),
        (
            "longest wait of a good client",
            f"{run.longest_wait_s:.2f} s of {run.wait_limit_s:.0f} s",
            run.longest_wait_s <= run.wait_limit_s,
        ),
        (
            "good clients' records",
            f"{verdict.acked:,} acknowledged, {verdict.lost} lost, {verdict.doubled} doubled, {verdict.misplaced} elsewhere, "
            f"{verdict.reordered} out of order, {verdict.refused} refused",
            verdict.good,
        ),
    ]
    if run.failed_logins:
        grown = f"{run.grown / MEBIBYTE:.1f} of {GROWTH_MAX / MEBIBYTE:.0f} MiB"
        checks.insert(2, (f"what {run.failed_logins:,} failed log-ins left", grown, run.grown <= GROWTH_MAX))
    result = Table(title="What it did")
    for column in ("check", "found", "ok"):
        result.add_column(column)
    for check, found, good in checks:
        result.add_row(check, found, "[green]yes[/]" if good else "[red]NO[/]")
    console.print(result)
    for sample in verdict.samples:
        console.print(f"[red]{sample}[/]")
    console.print(f"Everything stays in {directory}; the broker's own words are in {directory / 'broker.log'}.")


if __name__ == "__main__":
    program.run(main)

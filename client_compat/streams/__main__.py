"""Command line of `make streams`."""

from __future__ import annotations

import logging
import random
import shutil
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from client_compat.kafka.jars import KafkaMissing
from client_compat.matrix.clients import BuildFailed, ToolchainMissing
from client_compat.streams.application import STREAMS, StreamsFailed
from client_compat.streams.run import BROKERS, Round, StreamsRun, run
from client_compat.support import program
from client_compat.support.brokers import BrokerFailed
from client_compat.support.progress import progress

SEED_MAX = 2**32


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; in each the broker and the application are restarted.")] = 10,
    broker: Annotated[str, typer.Option(help=f"The broker, of {', '.join(BROKERS)}.")] = "ottla",
    seed: Annotated[int | None, typer.Option(help="Seed of flights and instants; random, and printed, by default.")] = None,
    directory: Annotated[Path, typer.Option("--dir", help="Where logs and state go; an earlier run's are replaced.")] = Path(".streams"),
) -> None:
    """A Kafka Streams application (exactly_once_v2, stores in RocksDB, two internal topics, sources by a pattern) counts flights. Each
    round stops broker and application cleanly, or kills them, and starts them again: every count has to be right, and to have come once."""
    console = Console()
    if broker not in BROKERS:
        raise typer.BadParameter(f"{broker} is none of {', '.join(BROKERS)}", param_hint="--broker")
    logging.getLogger("flights").setLevel(logging.CRITICAL)  # hide the clients' messages about the stopped broker
    logging.getLogger("outputs").setLevel(logging.CRITICAL)
    seed = random.randrange(SEED_MAX) if seed is None else seed
    shutil.rmtree(directory, ignore_errors=True)
    console.print(f"Seed {seed}: `python -m client_compat.streams --rounds {rounds} --broker {broker} --seed {seed}` repeats the plan.")
    done: list[Round] = []
    began = time.monotonic()
    try:
        STREAMS.ensure_built(console.print)
        with progress(console) as display:
            bar = display.add_task(f"rounds on {broker}", total=rounds, note="")

            def on_round(one: Round) -> None:
                done.append(one)
                display.update(bar, advance=1)
                display.console.print(f"Round {one.number}: {one.updates:,} updates, {'all right' if one.good else '[red]wrong[/]'}.")

            found = run(directory, rounds, seed, kind=broker, on_round=on_round)
    except (StreamsFailed, BrokerFailed, BuildFailed, ToolchainMissing, KafkaMissing) as failure:
        _print_rounds(console, done, time.monotonic() - began)
        console.print(f"[red]Round {len(done) + 1} was not finished:[/]", end=" ")
        console.print(str(failure), markup=False)
        raise typer.Exit(1) from None
    _print_rounds(console, found.rounds, time.monotonic() - began)
    _print_end(console, found, directory)
    raise typer.Exit(0 if found.good else 1)


def _print_rounds(console: Console, rounds: list[Round], seconds: float) -> None:
    table = Table(title=f"{len(rounds)} rounds in {seconds:.0f} s", box=SIMPLE, show_edge=False, pad_edge=False)
    for column in ("round", "broker", "first"):
        table.add_column(column, no_wrap=True)
    for column in ("back", "updates", "wrong", "doubled", "missed", "took"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in rounds:
        ended, first = "stopped" if one.clean else "killed", "broker" if one.broker_first else "app"
        numbers = (f"{number:,}" for number in (one.updates, one.wrong, one.doubled, one.missed))
        table.add_row(str(one.number), ended, first, f"{one.back_s:.2f} s", *numbers, f"{one.seconds:.0f} s")
    console.print(table)
    for sample in dict.fromkeys(sample for one in rounds for sample in one.samples):
        console.print(sample, style="red", markup=False)


def _print_end(console: Console, found: StreamsRun, directory: Path) -> None:
    console.print(f"The application was started {found.application_starts} times.")
    open_ = ", ".join(found.open) or "none"
    console.print(f"Open transactions after its end: {open_}. `ottla audit`: exit code {found.audit_code}.")
    if found.audit_code:
        console.print(found.audit, markup=False)
    good = "[green]Every count is right, and came once.[/]" if found.good else "[red]Not as promised.[/]"
    console.print(f"{good} Logs and state stay in {directory}.")


if __name__ == "__main__":
    program.run(main)

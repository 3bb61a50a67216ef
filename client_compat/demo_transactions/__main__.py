"""`make demo-transactions`: exactly-once as a command."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from client_compat.support.brokers import BrokerFailed, ottla
from client_compat.support.command import ottla_command
from client_compat.support.progress import progress
from client_compat.support.signals import end_on_signals
from client_compat.support.workers import RunFailed

MARKER = "flights.tsv"


def main(
    directory: Annotated[Path, typer.Option("--dir", help="Where everything goes and stays; an earlier demo's is replaced.")] = Path(
        ".demo-transactions"
    ),
    rows: Annotated[int | None, typer.Option(help="Only the first so many flights.")] = None,
) -> None:
    """Count 336,776 flights per carrier and hour in a consume-transform-produce pipeline, while two instances of one transactional id
    (one on aiokafka, one on confluent-kafka) fence each other and the broker is SIGKILLed five times; compare the output with the count
    made directly. Once with transactions, once without. Then audit the log. Exit code 0: everything was as promised; 1: something was
    not, or could not be run."""
    from spark_jobs.session import CannotJudge  # noqa: PLC0415 # the client processes import this module again

    console = Console()
    began = time.perf_counter()
    if directory.exists() and any(directory.iterdir()) and not (directory / MARKER).exists():
        console.print(f"[red]{directory} holds something that is not a demo's: choose another with --dir.[/]")
        raise typer.Exit(2)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    try:
        kept = _demo(console, directory.absolute(), rows)
    except (BrokerFailed, RunFailed, CannotJudge) as failure:
        console.print(f"[red]The demo could not be run:[/] {failure}")
        raise typer.Exit(1) from None
    console.print(f"Everything stays in {directory} (what was loaded: {MARKER}; the broker's and clients' own words: *.log). Look again:")
    command = ottla_command()
    console.print(f"  {command} audit {directory}/log    {command} dump-log {directory}/log/counts-transactional-0", soft_wrap=True)
    console.print(f"  {command} serve --data-dir {directory}/log    {command} transactions list", soft_wrap=True)
    console.print(f"[bold]{'As promised' if kept else 'NOT as promised'}[/], in {time.perf_counter() - began:.0f} s.")
    raise typer.Exit(0 if kept else 1)


def _demo(console: Console, directory: Path, limit: int | None) -> bool:
    """Both runs and the audit; whether everything was as promised."""
    from client_compat.demo.flights import write_rows  # noqa: PLC0415 # see main
    from client_compat.demo_transactions import topics  # noqa: PLC0415 # see main
    from client_compat.demo_transactions.instance import INPUT, INPUT_PARTITIONS  # noqa: PLC0415 # see main
    from client_compat.demo_transactions.run import KILLS, Flights, Run  # noqa: PLC0415 # see main
    from client_compat.demo_transactions.verdict import promises, tables  # noqa: PLC0415 # see main
    from client_compat.support.admin import create_topic  # noqa: PLC0415 # see main
    from spark_jobs.audit import audit  # noqa: PLC0415 # see main

    console.print(f"Two instances, one transactional id: each takes over from the other again and again; {KILLS} SIGKILLs in each run.")
    sent, client_log = directory / MARKER, directory / "clients.log"
    # The broker's output stands beside its directory, never in it: the directory holds what Kafka's would.
    with progress(console) as display:
        loading = display.add_task("flights loaded", total=None, note="confluent-kafka, idempotent")
        count = write_rows(sent, limit)
        with ottla(directory / "log", output=directory / "broker.log") as broker:
            create_topic(broker.bootstrap, INPUT, INPUT_PARTITIONS)
            flights = Flights(*topics.load(broker.bootstrap, sent, lambda n: display.update(loading, total=count, completed=n)))
            exact = Run(broker, flights, client_log, transactional=True, display=display).execute()
            plain = Run(broker, flights, client_log, transactional=False, display=display).execute()
        judging = display.add_task("audit of the log", total=None, note="")

        def step(text: str, done: int, total: int) -> None:
            display.update(judging, note=text, completed=done, total=total)

        verdict = audit([directory / "log"], progress=step)
    console.print(tables(exact, plain, verdict))
    found = promises(exact, plain, verdict)
    for promise in found:
        console.print(f"{'[green]✓[/]' if promise.kept else '[bold red]✗[/]'} {promise.text}", highlight=False)
    return all(promise.kept for promise in found)


if __name__ == "__main__":
    end_on_signals()
    typer.run(main)

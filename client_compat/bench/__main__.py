"""Command line of `make bench`."""

from __future__ import annotations

import logging
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from client_compat.bench import builds, pages, report
from client_compat.bench.cases import CASES
from client_compat.bench.loads import java
from client_compat.bench.model import OURS, Ability, Benchmark, Peer, Results
from client_compat.bench.peers import checkout
from client_compat.bench.peers.all import PEERS, WITHOUT_FAULTS, missing
from client_compat.bench.run import bench
from client_compat.support import program
from client_compat.support.brokers import BrokerFailed
from client_compat.support.progress import progress

REPORT_WIDTH = 170
PEER_HELP = f"Only these brokers, of {', '.join(PEERS)}, or NAME=DIRECTORY: this broker from another checkout. May be repeated."


def main(
    *,
    runs: Annotated[int, typer.Option(min=1, help="Number of interleaved runs; medians need five or more.")] = 5,
    only: Annotated[list[str] | None, typer.Option(help="Run only cases whose name or section contains this; may be repeated.")] = None,
    peer: Annotated[list[str] | None, typer.Option(help=PEER_HELP)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One run, to see that everything works, not for figures.")] = False,
    directory: Annotated[Path, typer.Option("--dir", help="Directory for logs and results.")] = Path(".bench"),
    write_docs: Annotated[bool, typer.Option("--write-docs", help="Also write docs/performance-figures.md and its charts.")] = False,
    render: Annotated[bool, typer.Option("--render", help="Measure nothing; make tables and charts of the existing results.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with code 1 if a target is missed.")] = False,
) -> None:
    """Measure Ottla, Apache Kafka and light replacements of Kafka in turns, with the same loads, in one run."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=REPORT_WIDTH)
    cases = [case for case in CASES if not only or any(part in f"{case.section} {case.name}" for part in only)]
    if not cases:
        console.print(f"[red]No case has that in its name.[/] There are: {'; '.join(case.name for case in CASES)}.")
        raise typer.Exit(2)
    directory.mkdir(parents=True, exist_ok=True)
    # with this set, a broker would compile its modules at each start, unlike in normal operation
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    logging.getLogger("bench").setLevel(logging.CRITICAL)  # hide librdkafka's messages about its own retries
    peers, about = _chosen(console, peer)
    if render:
        results = report.from_json((directory / "results.json").read_text())
        cases = [case for case in cases if case.name in results.values]
        peers = [PEERS.get(name) or checkout.peer(name, Path(name)) for name in results.peers]
    else:
        results = _measure(console, cases, 1 if quick else runs, peers, directory, quick=quick)
        results.about = about
        (directory / "results.json").write_text(report.as_json(results))
    console.print(report.screen(results, cases, peers))
    written = pages.write(results, cases, peers, directory / "report")
    if write_docs:
        written += pages.write(results, cases, peers, pages.DOCS)
    console.print(f"Written: {directory / 'results.json'} (every single measurement), {', '.join(map(str, written))}.")
    short = results.missed(cases)
    for case, figure, ratio in short:
        console.print(f"[yellow]misses its target:[/] {case.name}, {figure.name}: {ratio:.2f}, wanted {report.target(figure)}")
    failed = any(OURS in by_peer for by_peer in results.failures.values())
    raise typer.Exit(1 if failed or (check and short) else 0)


def _chosen(console: Console, wanted: list[str] | None) -> tuple[list[Peer], dict[str, str]]:
    """Return the selected peers (brokers under comparison) that are available on this machine, and information about the run for the
    report."""
    checkouts = {name: Path(path) for name, given, path in (each.partition("=") for each in wanted or []) if given}
    names = [each.partition("=")[0] for each in wanted or PEERS.keys() - {WITHOUT_FAULTS}]
    if unknown := [name for name in names if (name in PEERS) == (name in checkouts)]:
        console.print(f"[red]There is no broker {unknown[0]}.[/] There are: {', '.join(PEERS)}, and NAME=DIRECTORY with another name.")
        raise typer.Exit(2)
    without_java = java.why_not()
    peers = []
    for name, known in {**PEERS, **{name: checkout.peer(name, path) for name, path in checkouts.items()}}.items():
        if name not in names:
            continue
        if reason := checkout.why_not(checkouts[name]) if name in checkouts else missing(name):
            console.print(f"[yellow]{known.title} is left out:[/] {reason}")
            continue
        peers.append(known if without_java is None else replace(known, cannot={**known.cannot, Ability.JAVA: without_java}))
    return peers, {"cores": str(os.cpu_count()), "machine": platform.machine(), "python": builds.python(), "ottla": builds.ottla()}


def _measure(console: Console, cases: list[Benchmark], runs: int, peers: list[Peer], directory: Path, *, quick: bool) -> Results:
    able = sum(case.possible(peer) for case in cases for peer in peers)
    warm_ups = len(peers) if any(not case.of_tls and not case.of_cluster for case in cases) else 0
    warm_ups += sum(peer.make_secured is not None for peer in peers) if any(case.of_tls for case in cases) else 0
    warm_ups += sum(peer.make_cluster is not None for peer in peers) if any(case.of_cluster for case in cases) else 0
    with progress(console) as display:
        bar = display.add_task("measurements", total=able * runs + warm_ups, note="")

        def note(text: str) -> None:
            display.update(bar, note=text)
            display.advance(bar)
            if not console.is_terminal:
                console.print(text)

        try:
            return bench(cases, runs, peers, directory, java=java.why_not() is None, note=note, quick=quick)
        except BrokerFailed as failure:
            console.print(f"[red]{failure}[/]")
            raise typer.Exit(1) from None


if __name__ == "__main__":
    program.run(main)

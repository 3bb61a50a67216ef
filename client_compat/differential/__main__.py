"""Command line of `make differential`: runs all comparisons with Apache Kafka and prints the differences."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from client_compat.differential.access import differential_of_access
from client_compat.differential.cluster_scenarios import SCENARIOS as OF_CLUSTERS
from client_compat.differential.clusters import differential_of_clusters
from client_compat.differential.logins import differential_of_logins
from client_compat.differential.releases import ALL, OnScenario, differential_of_releases, versions_of, with_rows
from client_compat.differential.run import Difference, Report, differential
from client_compat.differential.scenarios import SCENARIOS
from client_compat.differential.through_gateway import (
    differential_of_access_through_gateway,
    differential_of_clusters_through_gateway,
    differential_of_logins_through_gateway,
    differential_through_gateway,
)
from client_compat.kafka.jars import KafkaMissing, default_version
from client_compat.support import program
from client_compat.support.brokers import BrokerFailed
from client_compat.support.kerberos import PRINCIPALS, KerberosMissing, Realm, in_environment

SHOWN_CHARS = 300


def main(  # noqa: PLR0917 # Typer calls it by name; each is an option of the command line
    only: Annotated[list[str] | None, typer.Argument(help="Words; run only scenarios with one of them in their name.")] = None,
    directory: Annotated[Path, typer.Option("--dir", help="Directory for both brokers; an existing one is replaced.")] = Path(
        ".differential"
    ),
    report_file: Annotated[Path | None, typer.Option("--json", help="Also write the report to this file.")] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="RELEASE",
            help="Compare `ottla serve --like RELEASE` with this release of Apache Kafka (3.7). all: each release in turn.",
        ),
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="With --like, replace the releases' rows in the table of this page (docs/releases.md).")
    ] = None,
    through_gateway: Annotated[
        bool, typer.Option("--through-gateway", help="Compare Apache Kafka with Apache Kafka behind ottla gateway, instead of Ottla.")
    ] = False,
    explained: Annotated[bool, typer.Option(help="Also show the differences that docs/deviations.md explains.")] = False,
) -> None:
    """Send the same requests to Apache Kafka and to Ottla and print each field in which their responses differ. Exit code 1 if
    docs/deviations.md does not explain one of the differences."""
    console, directory = Console(), directory.absolute()  # absolute, because broker settings contain paths below it
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)

    def on_scenario(name: str, report: Report) -> None:
        console.print(f"[dim]{name}: {report.answers} answers so far, {len(report.unexplained)} unexplained differences[/]")

    try:
        if table is not None and like is None:
            raise ValueError("--table is a table of releases: it goes with --like")
        if like is not None:
            _of_releases(
                console,
                directory,
                like,
                only or (),
                on_scenario=on_scenario,
                table=table,
                report_file=report_file,
                explained=explained,
            )
        report = Report(default_version())
        of_nodes, of_clusters = (
            (differential_through_gateway, differential_of_clusters_through_gateway)
            if through_gateway
            else (differential, differential_of_clusters)
        )
        for scenarios, compare in ((SCENARIOS, of_nodes), (OF_CLUSTERS, of_clusters)):
            if not only or any(word in name for name in scenarios for word in only):
                report.add(compare(directory, only or (), on_scenario=on_scenario))
        if not only or "logins" in only:
            of_logins = differential_of_logins_through_gateway if through_gateway else partial(_of_logins, console)
            report.add(of_logins(directory / "logins"))
        if not only or "access" in only:
            of_access = differential_of_access_through_gateway if through_gateway else differential_of_access
            report.add(of_access(directory, on_case=lambda _, found: on_scenario("access", found)))
    except (KafkaMissing, BrokerFailed, ValueError) as error:
        console.print(f"[red]Not compared:[/] {escape(str(error))}")
        raise typer.Exit(2) from None
    _end(console, report, report_file, explained=explained)


def _of_releases(
    console: Console,
    directory: Path,
    like: str,
    only: Sequence[str],
    *,
    on_scenario: OnScenario,
    table: Path | None,
    report_file: Path | None,
    explained: bool,
) -> NoReturn:
    """Compare Ottla with each release that `like` names, print the reports and write their rows into `table`. Exits with 1 if a difference
    is unexplained, and with 2 if no release could be compared. Raises ValueError for an unknown release."""

    def on_missing(version: str, why: str) -> None:
        console.print(f"[red]Not compared with {version}:[/] {escape(why)}")

    reports = []
    for report in differential_of_releases(directory, versions_of(like), only, on_scenario=on_scenario, on_missing=on_missing):
        _print_report(console, report, explained=explained)
        reports.append(report)
        if table is not None:
            table.write_text(with_rows(table.read_text(), [report]))
    if report_file is not None and reports:
        document = [report.as_json() for report in reports]
        report_file.write_text(json.dumps(document if like == ALL else document[0], indent=1) + "\n")
    raise typer.Exit(2 if not reports else 1 if any(report.unexplained for report in reports) else 0)


def _end(console: Console, report: Report, report_file: Path | None, *, explained: bool) -> NoReturn:
    """Print the report, write it as JSON to `report_file` if that is given, and end the program: exit code 1 if a difference is
    unexplained, else 0."""
    _print_report(console, report, explained=explained)
    if report_file is not None:
        report_file.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    raise typer.Exit(1 if report.unexplained else 0)


def _print_report(console: Console, report: Report, *, explained: bool) -> None:
    for found in report.differences:
        if explained or not found.known:
            _print(console, found)
    count, unexplained = len(report.differences), len(report.unexplained)
    console.print(
        f"{report.answers} answers of {len(report.scenarios)} scenarios compared with Apache Kafka {report.kafka_version}: "
        f"{unexplained} unexplained differences, {count - unexplained} explained ones."
    )
    if report.cut_short:
        console.print(f"{len(report.cut_short)} scenarios ended early, at a request that this release does not know.")
    if report.not_asked:
        console.print(f"{len(report.not_asked)} scenarios are about APIs that this release does not have.")


def _of_logins(console: Console, directory: Path) -> Report:
    """Compare the brokers' responses to log-ins, and return the report. Includes GSSAPI when a KDC and python-gssapi are installed."""
    try:
        import gssapi  # noqa: F401, PLC0415 # an optional dependency that few install

        with Realm(directory / "realm", PRINCIPALS) as realm, in_environment(realm.environment):
            return differential_of_logins(directory, realm=realm)
    except (ImportError, KerberosMissing) as missing:
        console.print(f"[yellow]Without GSSAPI:[/] {escape(str(missing))} ('make kerberos')")
    return differential_of_logins(directory)


def _print(console: Console, found: Difference) -> None:
    console.print(
        f"[bold]{found.scenario}[/] {escape(found.label)}: {found.api} v{found.version} [cyan]{escape(found.path)}[/]", soft_wrap=True
    )
    for side, value in (("kafka", found.kafka), ("ottla", found.ours)):
        console.print(f"    {side} {escape(str(value)[:SHOWN_CHARS])}", soft_wrap=True)
    if found.known:
        console.print(f"    [dim]meant: {escape(found.known)}[/]", soft_wrap=True)


if __name__ == "__main__":
    program.run(main)

"""Runs a campaign with its progress and its verdict on the terminal, for the commands that inject faults into a cluster."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import typer
from confluent_kafka import KafkaException
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from client_compat.cluster_mixed.faults import Fault
from client_compat.cluster_mixed.run import MixedRun, run
from client_compat.kafka.cluster import Cluster, Node
from client_compat.kafka.jars import KafkaMissing
from client_compat.matrix.clients import CLIENTS as EVERY_CLIENT
from client_compat.matrix.clients import JAVA, BuildFailed
from client_compat.matrix.control import ClientMissing, ProgramFailed
from client_compat.support.load import CLIENTS
from client_compat.support.program import or_exit
from client_compat.support.progress import progress
from client_compat.support.small_disk import NoSmallDisk
from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.verdict import Verdict

SEED_MAX = 2**32
MARKER = "broker-1.log"
"""A file that every run leaves in its directory, to recognise it."""
WHAT_TO_LOOK_AT = "faults.log has what was done when, each node and client a log beside it, and broker-1 and the others what is on disk"
FAILURES = (KafkaException, KafkaMissing, ClientMissing, ProgramFailed, BuildFailed, NoSmallDisk)


def conduct(
    console: Console,
    cluster: Cluster,
    clients: Sequence[str] | None,
    count: int,
    faults: Sequence[Fault],
    *,
    seed: int,
    chaos: bool = False,
    careless: bool = False,
    minutes: float = math.inf,
) -> None:
    """Run a whole command. Always raises `typer.Exit` with its exit code."""
    if unknown := set(clients or ()).difference(EVERY_CLIENT):
        raise typer.BadParameter(f"there is no client {', '.join(sorted(unknown))}", param_hint="--client")
    directory = cluster.directory
    what = f"The cluster did not survive. See {directory}: {WHAT_TO_LOOK_AT}. Why it was given up"
    with or_exit(console, what, *FAILURES), (directory / "faults.log").open("w") as log, progress(console) as display:
        chosen = clients or clients_here(console)
        bar = display.add_task("Faults under load", total=count, note="starting")

        def on_fault(found: MixedRun, node: Node, fault: Fault, said: str) -> None:
            done, took = found.faults.total(), found.back_seconds[-1]
            text = f"{node.process.name}: {fault} {said}{', ' if said else ''}settled in {took:.1f} s"
            display.update(bar, completed=done, note=text)
            log.write(f"{time.strftime('%H:%M:%S')} {done}: {text}\n")
            log.flush()
            if not console.is_terminal:
                console.print(f"{done}: {text}", style="dim")

        found = run(cluster, chosen, count, faults, seed, chaos=chaos, careless=careless, seconds=60 * minutes, on_fault=on_fault)
    print_run(console, found, directory)
    raise typer.Exit(0 if found.good else 1)


def clients_here(console: Console) -> list[str]:
    """Return the clients that every machine has, and Java's if it can be built."""
    if missing := JAVA.missing():
        console.print(f"Without the Java client: {missing}", style="yellow")
        return list(CLIENTS)
    JAVA.ensure_built()
    return [*CLIENTS, "java"]


def print_run(console: Console, found: MixedRun, directory: Path) -> None:
    table = Table(title=f"{found.faults.total()} faults in {found.seconds:.0f} s", title_justify="left")
    table.add_column("")
    for column in ("acknowledged", "lost", "doubled", "torn", "otherwise wrong"):
        table.add_column(column, justify="right")
    acks, txns = found.acks, found.transactions
    shown = ("lost", "doubled", "torn")
    for name, numbers in (
        ("records", (acks.acked, acks.lost, acks.doubled, 0, acks.wrong_but(*shown))),
        ("transactions", (txns.committed, txns.lost, txns.doubled, txns.torn, txns.wrong_but(*shown))),
    ):
        table.add_row(name, *(f"{number:,}" for number in numbers))
    console.print(table)
    for kind in Fault:
        if by_node := {node_id: count for (node_id, one), count in sorted(found.faults.items()) if one == kind}:
            console.print(f"{kind}: " + ", ".join(f"node {node_id} {count} times" for node_id, count in by_node.items()))
    console.print(f"{txns.aborted:,} transactions aborted, {txns.unknown:,} commits unanswered.")
    print_clients(console, found)
    if (read := found.groups) is not None:
        off = f"{read.missed} missed, {read.different} not as in the log, {read.backwards} committed offsets went back"
        console.print(f"Groups: {read.given:,} records given; {off}.")
    if back := found.back_seconds:
        console.print(f"Settled after a fault in {statistics.median(back):.1f} s (median), {max(back):.1f} s at most.")
    same = found.replicas
    compared = f"{same.partitions} partitions, {same.batches:,} batches compared"
    console.print(f"Replicas: {compared}; {same.differ} differ, {same.epochs_differ} in leader epochs.")
    if found.audit is not None:
        console.print(f"Audit of all directories: {found.audit.headline}.")
        for text in findings(found.audit):
            console.print(f"[yellow]{escape(text)}[/]")
    for sample in (*acks.samples, *txns.samples, *(read.samples if read else ()), *same.samples):
        console.print(f"[red]{escape(sample)}[/]")
    console.print(
        f"[green]As promised, and nothing is stuck.[/] All stays in {directory}."
        if found.good
        else f"[red]Not as promised.[/] See {directory}: {WHAT_TO_LOOK_AT}."
    )


def print_clients(console: Console, found: MixedRun) -> None:
    """Print what clients did wrong themselves, which is no fault of a broker except for hanging calls."""
    if found.hung:
        console.print(f"[red]Clients that hung, and were killed:[/] {', '.join(found.hung)}; see transactions.log.")
    if found.acks.given_up:
        console.print(f"[yellow]Values given up by a producer that knew no broker any more, and was opened anew:[/] {found.acks.given_up}.")
    if found.acks.excused:
        console.print(f"[yellow]Stored again by librdkafka itself, under a new epoch (its issue 4953):[/] {found.acks.excused}.")
    if found.members_hung:
        console.print(f"[yellow]Members that hung, and were killed:[/] {', '.join(found.members_hung)}; see groups.log.")


def findings(audit: Verdict) -> list[str]:
    """Return violations and warnings, once for all brokers that have them: a warning is no violation, but needs an explanation."""
    found: dict[str, list[str]] = {}
    for directory in audit.directories:
        for sample in (sample for result in directory.rules.values() for sample in result.samples if sample.severity != Severity.INFO):
            evidence = ", ".join(f"{name} {value}" for name, value in sample.evidence.items())
            text = f"{sample.severity}, {sample.rule}: {sample.kind} at {sample.where} ({evidence})"
            found.setdefault(text, []).append(Path(directory.path).name)
    return [f"{text}: {', '.join(brokers)}" for text, brokers in found.items()]

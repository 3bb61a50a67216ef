"""`make cluster-mixed`: the faults of a cluster as a command."""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaException
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from client_compat.cluster_mixed.faults import EVERY, Fault
from client_compat.cluster_mixed.run import MixedRun, run
from client_compat.kafka.cluster import MIXED, Cluster, Kind, Node, kinds_of
from client_compat.kafka.jars import KafkaMissing, default_version
from client_compat.matrix.clients import CLIENTS as EVERY_CLIENT
from client_compat.matrix.clients import JAVA, BuildFailed
from client_compat.matrix.control import ClientMissing, ProgramFailed
from client_compat.support import program
from client_compat.support.load import CLIENTS
from client_compat.support.program import or_exit, replace
from client_compat.support.progress import progress

SEED_MAX = 2**32
MARKER = "broker-1.log"


def main(
    *,
    faults: Annotated[int, typer.Option(min=1, help="Faults in this run.")] = 100,
    brokers: Annotated[str, typer.Option(help="Whose broker each is: kafka or ottla, at least three.")] = ",".join(MIXED),
    controllers: Annotated[int, typer.Option(min=1, help="Controllers; of Ottla's only one.")] = 1,
    controller: Annotated[Kind, typer.Option(help="Whose they are.")] = Kind.KAFKA,
    controller_version: Annotated[str | None, typer.Option(help="The version of Kafka's, such as 4.0.2; by default the brokers'.")] = None,
    fault: Annotated[
        list[Fault] | None,
        typer.Option(help="Only this one; may be repeated. Takeover: the other kind of broker is put on each directory in turn, and back."),
    ] = None,
    client: Annotated[list[str] | None, typer.Option(help="Only this client; may be repeated.")] = None,
    careless: Annotated[
        bool, typer.Option(help="acks=1, no idempotence, unclean elections: records are lost, and the run says so.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the instants; random, and printed, by default.")] = None,
    directory: Annotated[Path, typer.Option("--dir", help="Where all directories go; an earlier run's is replaced.")] = Path(".cluster"),
) -> None:
    """Restart, SIGKILL and SIGSTOP every broker of a cluster in turn under idempotent and transactional load, and compare what the clients
    were told with what is in the brokers' directories: lost 0, doubled 0, torn 0, replicas equal, the audit clean. Exit code 1 when not."""
    console = program.new_console()
    seed = random.randrange(SEED_MAX) if seed is None else seed
    kinds = kinds_of(brokers)
    if unknown := set(client or ()).difference(EVERY_CLIENT):
        raise typer.BadParameter(f"there is no client {', '.join(sorted(unknown))}", param_hint="--client")
    if controller == Kind.OTTLA and controllers > 1:
        raise typer.BadParameter("Ottla's controller is its quorum's only voter", param_hint="--controllers")
    replace(console, directory, MARKER)
    whose = "Ottla" if controller == Kind.OTTLA else f"Apache Kafka {controller_version or default_version()}"
    console.print(f"Brokers {brokers}, {controllers} controller(s) of {whose}, seed {seed}.")
    with (
        or_exit(console, "The cluster did not survive", KafkaException, KafkaMissing, ClientMissing, ProgramFailed, BuildFailed),
        progress(console) as display,
    ):
        clients = client or clients_here(console)
        bar = display.add_task("Faults under load", total=faults, note="starting")

        def on_fault(found: MixedRun, broker: Node, done_to_it: Fault) -> None:
            done = found.faults.total()
            display.update(bar, completed=done, note=f"{broker.process.name}: {done_to_it}, settled in {found.back_seconds[-1]:.1f} s")
            if not console.is_terminal:
                console.print(f"{done}: {broker.process.name}, {done_to_it}, settled in {found.back_seconds[-1]:.1f} s", style="dim")

        version = controller_version or default_version()
        cluster = Cluster(directory.absolute(), kinds, controllers, controller_version=version, controller_kind=controller)
        found = run(cluster, clients, faults, fault or EVERY, seed, careless=careless, on_fault=on_fault)
    _print(console, found, directory)
    raise typer.Exit(0 if found.good else 1)


def clients_here(console: Console) -> list[str]:
    """Those that every machine has, and Java's where it can be built."""
    if missing := JAVA.missing():
        console.print(f"Without the Java client: {missing}", style="yellow")
        return list(CLIENTS)
    JAVA.ensure_built()
    return [*CLIENTS, "java"]


def _print(console: Console, found: MixedRun, directory: Path) -> None:
    table = Table(title=f"{found.faults.total()} faults in {found.seconds:.0f} s", title_justify="left")
    table.add_column("")
    for column in ("acknowledged", "lost", "doubled", "torn", "otherwise wrong"):
        table.add_column(column, justify="right")
    acks, txns = found.acks, found.transactions
    wrong = acks.misplaced + acks.reordered + acks.refused + acks.unanswered + acks.foreign
    for name, numbers in (
        ("records", (acks.acked, acks.lost, acks.doubled, 0, wrong)),
        ("transactions", (txns.committed, txns.lost, txns.doubled, txns.torn, txns.shown + txns.strange)),
    ):
        table.add_row(name, *(f"{number:,}" for number in numbers))
    console.print(table)
    for kind in Fault:
        if by_broker := {node_id: count for (node_id, one), count in sorted(found.faults.items()) if one == kind}:
            console.print(f"{kind}: " + ", ".join(f"broker {node_id} {count} times" for node_id, count in by_broker.items()))
    console.print(f"{txns.aborted:,} transactions aborted, {txns.unknown:,} commits unanswered.")
    if found.hung:
        console.print(f"[yellow]Clients that hung, and were killed:[/] {', '.join(found.hung)}; see transactions.log.")
    if back := found.back_seconds:
        console.print(f"Settled after a fault in {statistics.median(back):.1f} s (median), {max(back):.1f} s at most.")
    same = found.replicas
    compared = f"{same.partitions} partitions, {same.batches:,} batches compared"
    console.print(f"Replicas: {compared}; {same.differ} differ, {same.epochs_differ} in leader epochs.")
    if found.audit is not None:
        console.print(f"Audit of all directories: {found.audit.headline}.")
    for sample in (*acks.samples, *txns.samples, *same.samples):
        console.print(f"[red]{escape(sample)}[/]")
    console.print(f"[green]As promised.[/] All stays in {directory}." if found.good else f"[red]Not as promised.[/] See {directory}.")


if __name__ == "__main__":
    program.run(main)

"""`make cluster-mixed`: injects faults into a cluster."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Annotated

import typer

from client_compat.cluster_mixed.faults import EVERY, Fault
from client_compat.cluster_mixed.report import MARKER, SEED_MAX, conduct
from client_compat.kafka.cluster import MIXED, Cluster, Kind, kinds_of
from client_compat.kafka.jars import default_version
from client_compat.kafka.locked import USERS, locked
from client_compat.support import program
from client_compat.support.program import replace


def main(
    *,
    faults: Annotated[int, typer.Option(min=1, help="Faults in this run.")] = 100,
    brokers: Annotated[str, typer.Option(help="Whose broker each is: kafka or ottla, at least three.")] = ",".join(MIXED),
    controllers: Annotated[int, typer.Option(min=1, help="Controllers; of Ottla's only one.")] = 1,
    controller: Annotated[Kind, typer.Option(help="Whose they are.")] = Kind.KAFKA,
    controller_version: Annotated[str | None, typer.Option(help="The version of Kafka's, such as 4.0.2; by default the brokers'.")] = None,
    combined: Annotated[bool, typer.Option("--combined", help="Broker 1 is the controller, too, of whichever kind it is.")] = False,
    fault: Annotated[
        list[Fault] | None,
        typer.Option(help="Only this one; may be repeated. Takeover: the other kind of broker is put on each directory in turn, and back."),
    ] = None,
    client: Annotated[list[str] | None, typer.Option(help="Only this client; may be repeated.")] = None,
    are_locked: Annotated[
        bool, typer.Option("--locked", help="Nodes reach each other through TLS, by SCRAM and PLAIN; clients as ever.")
    ] = False,
    careless: Annotated[
        bool, typer.Option(help="acks=1, no idempotence, unclean elections: records are lost, and the run says so.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the instants; random, and printed, by default.")] = None,
    minutes: Annotated[float, typer.Option(help="After so many no more faults are begun, and what was done is judged.")] = math.inf,
    directory: Annotated[Path, typer.Option("--dir", help="Where all directories go; an earlier run's is replaced.")] = Path(".cluster"),
) -> None:
    """Restart, SIGKILL and SIGSTOP every broker of a cluster in turn under idempotent and transactional load, and compare what the clients
    were told with the brokers' directories: nothing lost, duplicated or torn, replicas equal, the audit clean. Exit code 1 if not."""
    console = program.new_console()
    seed = random.randrange(SEED_MAX) if seed is None else seed
    kinds = kinds_of(brokers)
    if controller == Kind.OTTLA and controllers > 1:
        raise typer.BadParameter("Ottla's controller is its quorum's only voter", param_hint="--controllers")
    replace(console, directory, MARKER)
    version = controller_version or default_version()
    whose = "Ottla" if controller == Kind.OTTLA else f"Apache Kafka {version}"
    led = "the first of them the controller, too" if combined else f"{controllers} controller(s) of {whose}"
    console.print(f"Brokers {brokers}, {led}{', locked to each other' if are_locked else ''}, seed {seed}.")
    chosen = fault or EVERY
    can_be_cut = Fault.LINK in chosen
    cluster = Cluster(
        directory.absolute(),
        kinds,
        controllers,
        controller_version=version,
        controller_kind=controller,
        can_be_cut=can_be_cut,
        combined=combined,
        between=are_locked,
        users=USERS if are_locked else (),
        settings=locked(directory.absolute() / "tls") if are_locked else {},
    )
    conduct(console, cluster, client, faults, chosen, seed=seed, careless=careless, minutes=minutes)


if __name__ == "__main__":
    program.run(main)

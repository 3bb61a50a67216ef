"""`make cluster-mixed`: injects faults into a cluster whose brokers are Apache Kafka's, Ottla's or both."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from client_compat.cluster_mixed.campaign import mixed_campaign
from client_compat.cluster_mixed.faults import BASIC_FAULTS, Fault
from client_compat.kafka.cluster import MIXED, Cluster, Kind, kinds_of
from client_compat.kafka.inter_node_security import USERS, password_settings
from client_compat.kafka.jars import default_version
from client_compat.support import program
from client_compat.support.campaign import Directory, Seed


def main(
    *,
    faults: Annotated[int, typer.Option(min=1, help="Number of faults to inject.")] = 100,
    brokers: Annotated[str, typer.Option(help="The kind of each broker, kafka or ottla; at least three.")] = ",".join(MIXED),
    controllers: Annotated[int, typer.Option(min=1, help="Number of controllers; with --controller ottla only one.")] = 1,
    controller: Annotated[Kind, typer.Option(help="The kind of the controllers.")] = Kind.KAFKA,
    controller_version: Annotated[
        str | None, typer.Option(help="The Kafka version of the controllers, such as 4.0.2; default: the brokers'.")
    ] = None,
    combined: Annotated[bool, typer.Option("--combined", help="Broker 1 is the controller, too, of either kind.")] = False,
    fault: Annotated[
        list[Fault] | None,
        typer.Option(
            help="Inject only this fault; may be repeated. takeover: each broker in turn is replaced by the other kind, and back."
        ),
    ] = None,
    client: Annotated[list[str] | None, typer.Option(help="Run only this client; may be repeated.")] = None,
    is_secured: Annotated[
        bool, typer.Option("--locked", help="Nodes connect to each other with TLS, SCRAM and PLAIN; clients connect without.")
    ] = False,
    careless: Annotated[
        bool, typer.Option(help="acks=1, no idempotence, unclean elections: records are lost, and the run says so.")
    ] = False,
    seed: Seed,
    minutes: Annotated[float, typer.Option(help="Inject no more faults after this time, and judge the run.")] = math.inf,
    directory: Directory = Path(".cluster"),
) -> None:
    """Restart, SIGKILL and SIGSTOP every broker of a cluster in turn under idempotent and transactional load. Afterwards, compare the
    clients' acknowledgements with the brokers' directories: no record may be lost, duplicated or torn from its transaction, the replicas
    must be equal, and the audit must find nothing."""
    kinds = kinds_of(brokers)
    if controller == Kind.OTTLA and controllers > 1:
        raise typer.BadParameter("Ottla's controller is its quorum's only voter", param_hint="--controllers")
    version = controller_version or default_version()
    whose = "Ottla" if controller == Kind.OTTLA else f"Apache Kafka {version}"
    led = "the first of them the controller, too" if combined else f"{controllers} controller(s) of {whose}"
    secured = ", secured from each other" if is_secured else ""
    program.new_console().print(f"Brokers {brokers}, {led}{secured}.")
    chosen = fault or BASIC_FAULTS

    def cluster(root: Path) -> Cluster:
        return Cluster(
            root,
            kinds,
            controllers,
            controller_version=version,
            controller_kind=controller,
            can_be_cut=Fault.LINK in chosen,
            combined=combined,
            inter_broker_listener=is_secured,
            users=USERS if is_secured else (),
            settings=password_settings(root / "tls") if is_secured else {},
        )

    mixed_campaign(cluster, directory, client, faults, chosen, seed=seed, careless=careless, minutes=minutes)


if __name__ == "__main__":
    program.run(main)

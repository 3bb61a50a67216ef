"""`make chaos`: injects faults into a cluster of Ottla brokers with an Ottla controller, under load."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from client_compat.cluster_mixed.campaign import mixed_campaign
from client_compat.cluster_mixed.faults import CHAOS_FAULTS, Fault
from client_compat.kafka.cluster import ALL_OTTLA, Cluster, Kind
from client_compat.support import program, small_disk
from client_compat.support.campaign import Directory, Seed

SETTINGS = {"replica.lag.time.max.ms": "4000"}
"""Settings of the brokers. Links are cut for up to 7 s: a follower leaves the ISR if a cut is longer than this limit, and stays in it
otherwise."""


def main(
    *,
    faults: Annotated[int, typer.Option(min=1, help="Number of faults to inject.")] = 500,
    fault: Annotated[list[Fault] | None, typer.Option(help="Inject only this fault; may be repeated.")] = None,
    client: Annotated[list[str] | None, typer.Option(help="Run only this client; may be repeated.")] = None,
    seed: Seed,
    minutes: Annotated[float, typer.Option(help="Inject no more faults after this time, and judge the run.")] = math.inf,
    directory: Directory = Path(".chaos"),
) -> None:
    """Test a cluster of three Ottla brokers and an Ottla controller, each a process, under idempotent, transactional and group load. Nodes
    are restarted, killed (SIGKILL) and paused (SIGSTOP), their links are cut and their disks filled. Afterwards, the clients'
    acknowledgements and received records are compared with the brokers' directories: no record may be lost, duplicated or torn from its
    transaction, no client may hang, the replicas must be equal, and the audit must find nothing."""
    chosen = fault or list(CHAOS_FAULTS)
    if Fault.TAKEOVER in chosen:
        raise typer.BadParameter("a takeover needs brokers of two kinds: see make cluster-mixed", param_hint="--fault")
    if Fault.DISK in chosen and (why := small_disk.missing()) is not None:
        program.new_console().print(f"Without full disks: {why}.", style="yellow")
        chosen = [one for one in chosen if one != Fault.DISK]
        if not chosen:
            raise typer.Exit(1)

    def cluster(root: Path) -> Cluster:
        return Cluster(root, ALL_OTTLA, controller_kind=Kind.OTTLA, settings=SETTINGS, can_be_cut=Fault.LINK in chosen)

    mixed_campaign(cluster, directory, client, faults, chosen, seed=seed, chaos=True, minutes=minutes)


if __name__ == "__main__":
    program.run(main)

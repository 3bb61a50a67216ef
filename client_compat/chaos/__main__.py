"""`make chaos`: the faults of a cluster of Ottla's own as a command."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Annotated

import typer

from client_compat.cluster_mixed.faults import CHAOS, Fault
from client_compat.cluster_mixed.report import MARKER, SEED_MAX, conduct
from client_compat.kafka.cluster import ALL_OTTLA, Cluster, Kind
from client_compat.support import program, small_disk
from client_compat.support.program import replace

SETTINGS = {"replica.lag.time.max.ms": "4000"}
"""Followers whose links are cut leave the in-sync set, or do not, by how long that lasts."""


def main(
    *,
    faults: Annotated[int, typer.Option(min=1, help="Faults in this run.")] = 500,
    fault: Annotated[list[Fault] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    client: Annotated[list[str] | None, typer.Option(help="Only this client; may be repeated.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the faults; random, and printed, by default.")] = None,
    minutes: Annotated[float, typer.Option(help="After so many no more faults are begun, and what was done is judged.")] = math.inf,
    directory: Annotated[Path, typer.Option("--dir", help="Where all directories go; an earlier run's is replaced.")] = Path(".chaos"),
) -> None:
    """Three brokers and a controller, each a process: restart, SIGKILL and SIGSTOP them, cut their links and fill their disks, one after
    the other, under idempotent, transactional and group load, and compare what the clients were told and given with what is in the
    brokers' directories: lost 0, doubled 0, torn 0, stuck 0, replicas equal, the audit clean. Exit code 1 when not."""
    console = program.new_console()
    seed = random.randrange(SEED_MAX) if seed is None else seed
    chosen = fault or list(CHAOS)
    if Fault.TAKEOVER in chosen:
        raise typer.BadParameter("a takeover needs brokers of two kinds: see make cluster-mixed", param_hint="--fault")
    replace(console, directory, MARKER)
    console.print(f"Seed {seed}: `python -m client_compat.chaos --faults {faults} --seed {seed}` repeats the plan.")
    if Fault.DISK in chosen and (why := small_disk.missing()) is not None:
        console.print(f"Without full disks: {why}.", style="yellow")
        chosen = [one for one in chosen if one != Fault.DISK]
        if not chosen:
            raise typer.Exit(1)
    cluster = Cluster(directory.absolute(), ALL_OTTLA, controller_kind=Kind.OTTLA, settings=SETTINGS, can_be_cut=Fault.LINK in chosen)
    conduct(console, cluster, client, faults, chosen, seed=seed, chaos=True, minutes=minutes)


if __name__ == "__main__":
    program.run(main)

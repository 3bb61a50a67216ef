"""The campaign that `make cluster-mixed` and `make chaos` share: it injects faults into a cluster under load, and prints the verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import typer
from confluent_kafka import KafkaException
from rich.console import Console

from client_compat.cluster_mixed.faults import Fault
from client_compat.cluster_mixed.run import MixedRun, run
from client_compat.kafka.cluster import Cluster, Node
from client_compat.kafka.jars import KafkaMissing
from client_compat.matrix.clients import CLIENTS as EVERY_CLIENT
from client_compat.matrix.clients import JAVA, BuildFailed
from client_compat.matrix.control import ClientMissing, ProgramFailed
from client_compat.support.campaign import run_campaign
from client_compat.support.load import CLIENTS
from client_compat.support.progress import progress
from client_compat.support.small_disk import NoSmallDisk

WHAT_TO_LOOK_AT = "faults.log lists the faults with their times, and each node and client has a log and a directory"
FAILURES = (KafkaException, KafkaMissing, ClientMissing, ProgramFailed, BuildFailed, NoSmallDisk)


def mixed_campaign(
    cluster_in: Callable[[Path], Cluster],
    directory: Path,
    clients: Sequence[str] | None,
    count: int,
    faults: Sequence[Fault],
    *,
    seed: int,
    chaos: bool = False,
    careless: bool = False,
    minutes: float = math.inf,
) -> NoReturn:
    """Inject `count` faults of the kinds `faults` into a cluster under load, print the verdict, and end the program with its exit code.
    `cluster_in` makes the cluster in a new directory. `clients` are names of client libraries (None: all that can run here). `chaos` and
    `careless`: see `run`. After `minutes` minutes, no further fault is injected."""
    if unknown := set(clients or ()).difference(EVERY_CLIENT):
        raise typer.BadParameter(f"there is no client {', '.join(sorted(unknown))}", param_hint="--client")

    def play(console: Console, root: Path) -> MixedRun:
        chosen, cluster = clients or clients_here(console), cluster_in(root)
        with (root / "faults.log").open("w") as log, progress(console) as display:
            bar = display.add_task("Faults under load", total=count, note="starting")

            def on_fault(found: MixedRun, node: Node, fault: Fault, description: str) -> None:
                done, took = found.faults.total(), found.back_seconds[-1]
                text = f"{node.process.name}: {fault} {description}{', ' if description else ''}settled in {took:.1f} s"
                display.update(bar, completed=done, note=text)
                log.write(f"{time.strftime('%H:%M:%S')} {done}: {text}\n")
                log.flush()
                if not console.is_terminal:
                    console.print(f"{done}: {text}", style="dim")

            return run(cluster, chosen, count, faults, seed, chaos=chaos, careless=careless, seconds=60 * minutes, on_fault=on_fault)

    run_campaign(play, directory, seed=seed, failures=FAILURES, look_at=WHAT_TO_LOOK_AT)


def clients_here(console: Console) -> list[str]:
    """Return the names of the client libraries that can run here: the Python clients, and "java" if the Java client can be built."""
    if missing := JAVA.missing():
        console.print(f"Without the Java client: {missing}", style="yellow")
        return list(CLIENTS)
    JAVA.ensure_built()
    return [*CLIENTS, "java"]

"""Command line of `make streams`: restarts a Kafka Streams application and its broker, and checks the results."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from client_compat.kafka.jars import KafkaMissing
from client_compat.matrix.clients import BuildFailed, ToolchainMissing
from client_compat.streams.application import PROTOCOLS, STREAMS, StreamsFailed
from client_compat.streams.run import BROKERS, Round, StreamsRun, run
from client_compat.support import program
from client_compat.support.campaign import Directory, Seed, run_campaign
from client_compat.support.progress import progress


def main(
    *,
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; in each, the broker and the application are restarted.")] = 10,
    broker: Annotated[str, typer.Option(help=f"The broker, of {', '.join(BROKERS)}.")] = "ottla",
    protocol: Annotated[str, typer.Option(help=f"The application's group protocol, of {', '.join(PROTOCOLS)}.")] = "classic",
    seed: Seed,
    directory: Directory = Path(".streams"),
) -> None:
    """Run a Kafka Streams application (exactly_once_v2, stores in RocksDB, two internal topics, sources by a pattern) that counts flights.
    Each round stops broker and application cleanly, or kills them, and starts them again. Every count must be correct, and each update of a
    count must be written exactly once."""
    if broker not in BROKERS:
        raise typer.BadParameter(f"{broker} is none of {', '.join(BROKERS)}", param_hint="--broker")
    if protocol not in PROTOCOLS:
        raise typer.BadParameter(f"{protocol} is none of {', '.join(PROTOCOLS)}", param_hint="--protocol")
    logging.getLogger("flights").setLevel(logging.CRITICAL)  # hide the clients' messages about the stopped broker
    logging.getLogger("outputs").setLevel(logging.CRITICAL)

    def play(console: Console, root: Path) -> StreamsRun:
        STREAMS.ensure_built(console.print)
        with progress(console) as display:
            bar = display.add_task(f"rounds on {broker}", total=rounds, note="")

            def on_round(one: Round) -> None:
                display.update(bar, advance=1)
                console.print(str(one), style="" if one.good else "red", markup=False)

            return run(root, rounds, seed, kind=broker, protocol=protocol, on_round=on_round)

    run_campaign(play, directory, seed=seed, failures=(StreamsFailed, BuildFailed, ToolchainMissing, KafkaMissing))


if __name__ == "__main__":
    program.run(main)

"""`make crash` and `make share-crash`: the crash test as a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from client_compat.crash.run import CrashRun, Kills, crash
from client_compat.crash.share import share_crash
from client_compat.support import program
from client_compat.support.campaign import Directory, Seed, run_campaign
from client_compat.support.progress import progress


def main(
    *,
    kills: Annotated[int, typer.Option(min=1, help="Number of SIGKILLs.")] = 50,
    share: Annotated[bool, typer.Option("--share", help="Load the broker with a share group instead of idempotent producers.")] = False,
    brokers: Annotated[
        int, typer.Option(min=1, help="With --share: number of brokers in the cluster; each SIGKILL is for a random one.")
    ] = 1,
    seed: Seed,
    directory: Directory = Path(".crash"),
    broker_option: Annotated[list[str] | None, typer.Option(help="A further argument of `ottla serve`; may be repeated.")] = None,
) -> None:
    """SIGKILL the broker at random instants under load, and restart it at once. aiokafka and confluent-kafka produce with idempotence, and
    every acknowledgement is compared with the log: no value may be lost or duplicated, and each must be at the offset that its client
    received. With --share, two members of a share group accept and release records: no record may be lost, or delivered again after the
    broker has confirmed its acceptance."""

    def play(console: Console, root: Path) -> CrashRun:
        with progress(console) as display:
            bar = display.add_task("SIGKILLs under load", total=kills, note="")

            def on_kill(found: Kills) -> None:
                display.update(bar, completed=min(found.done, kills), note=f"back in {found.restart_seconds[-1]:.2f} s")

            if share:
                return share_crash(root, kills, seed, brokers=brokers, options=broker_option or (), on_kill=on_kill)
            return crash(root, kills, seed, options=broker_option or (), on_kill=on_kill)

    run_campaign(play, directory, seed=seed)


if __name__ == "__main__":
    program.run(main)

"""Command line of `make fuzz`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from client_compat.fuzz.run import MEBIBYTE, FuzzRun, fuzz
from client_compat.support import program
from client_compat.support.campaign import Directory, Seed, run_campaign
from client_compat.support.progress import progress


def main(
    *,
    seconds: Annotated[int, typer.Option(min=1, help="Duration of the attack.")] = 300,
    seed: Seed,
    rss_limit_mib: Annotated[int, typer.Option(help="The broker's resident memory must stay below this.")] = 512,
    wait_limit_s: Annotated[float, typer.Option(help="No well-behaved client may wait longer than this for an acknowledgement.")] = 5.0,
    locked: Annotated[bool, typer.Option("--locked", help="Attack a broker with TLS, SASL and ACLs.")] = False,
    through_gateway: Annotated[
        bool, typer.Option("--through-gateway", help="Attack ottla gateway before an open broker, with its clients behind it too.")
    ] = False,
    failed_logins: Annotated[int, typer.Option(help="With --locked: number of failed authentications before the attack.")] = 10_000,
    directory: Directory = Path(".fuzz"),
) -> None:
    """Attack a running broker with corrupted frames, hostile batches, decompression bombs, incomplete frames and slow connections, while
    idempotent producers use the same broker. The broker must not die, exceed its memory limit, log a bug, or accept an unauthorized client.
    No well-behaved client may lose a record or wait too long."""

    if locked and through_gateway:
        raise typer.BadParameter("the gateway is attacked before an open broker", param_hint="--through-gateway")

    def play(console: Console, root: Path) -> FuzzRun:
        rss_limit = rss_limit_mib * MEBIBYTE
        run = FuzzRun(seed, locked, through_gateway, failed_logins if locked else 0, rss_limit=rss_limit, wait_limit_s=wait_limit_s)
        with progress(console) as display:
            bar = display.add_task("seconds of attack", total=seconds, note="")

            def on_look(so_far: FuzzRun) -> None:
                note = f"{so_far.counts['frames']:,} frames, {so_far.rss_max / MEBIBYTE:.0f} MiB"
                display.update(bar, completed=int(display.tasks[bar].elapsed or 0), note=note)

            fuzz(root, seconds, run, on_look=on_look)
            display.update(bar, completed=seconds)
        return run

    run_campaign(play, directory, seed=seed, look_at="the broker's own words are in broker.log")


if __name__ == "__main__":
    program.run(main)

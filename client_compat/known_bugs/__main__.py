"""Command line of `make known-bugs`: reproduces each known bug on a broker with the transaction version (1 or 2) that the bug concerns."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from client_compat.known_bugs.catalog import CATALOG, Bug
from client_compat.support import program
from client_compat.support.campaign import Expectations, run_campaign
from client_compat.support.stage import Stage, stages


def main(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name of the bug to show; default: all.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Print the names of the bugs and exit.")] = False,
) -> None:
    """Reproduce known bugs of exactly-once with real clients, and print what happened with offsets, sequences, epochs and error names."""
    if listed:
        for bug in CATALOG:
            print(f"{bug.name:28} {bug.title}")
        return
    chosen = [bug for bug in CATALOG if name in (None, bug.name)]
    if not chosen:
        raise typer.BadParameter(f"there is no {name}; there are {', '.join(bug.name for bug in CATALOG)}")
    versions = sorted({bug.transaction_version for bug in chosen})

    def play(console: Console, root: Path) -> Expectations:
        with stages(root, partial(console.print, soft_wrap=True, highlight=False, markup=False), versions) as ready:
            return Expectations(len(chosen), [bug.name for bug in chosen if not _show(console, bug, ready[bug.transaction_version])])

    run_campaign(play)


def _show(console: Console, bug: Bug, stage: Stage) -> bool:
    console.print(f"\n{bug.name}: {bug.title}", style="bold", markup=False)
    console.print(f"  {bug.source}", style="dim", markup=False)
    began = time.perf_counter()
    as_expected = bug.play(stage)
    stage.admin.reset()
    took = time.perf_counter() - began
    console.print(
        f"as expected: {bug.expected} ({took:.2f} s)" if as_expected else f"NOT as expected; expected: {bug.expected} ({took:.2f} s)",
        style="green" if as_expected else "red",
        markup=False,
    )
    return as_expected


if __name__ == "__main__":
    program.run(main)

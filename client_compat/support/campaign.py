"""Runs campaigns. A campaign is a program that puts clients to work, injects faults, and ends in a verdict.

A campaign supplies a function that runs it and returns its outcome. This module handles the seed, the directory, the command that repeats
the campaign, the reason in one line if it could not be finished, the verdict, commands for a closer look, and the exit code (see
`program`).
"""

from __future__ import annotations

import random
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn, Protocol

import typer
from rich.console import Console
from rich.markup import escape

from client_compat.support.command import ottla_command
from client_compat.support.program import new_console, or_exit, replace

SEED_MAX = 2**32
RECORD = "campaign.txt"
"""The file in a campaign's directory that identifies it; it holds the command that repeats the campaign."""

Seed = Annotated[
    int,
    typer.Option(
        default_factory=lambda: random.randrange(SEED_MAX), show_default=False, help="Seed of the plan; random, and printed, by default."
    ),
]
Directory = Annotated[Path, typer.Option("--dir", help="Where everything goes and stays; an earlier run's is replaced.")]


class Outcome(Protocol):
    """The result of a campaign (a test program with clients and faults), which `run_campaign` prints."""

    @property
    def good(self) -> bool:
        """Whether the campaign checked something, and every check had the expected result."""

    def show(self, console: Console) -> None:
        """Print the campaign's actions and findings."""


@dataclass(frozen=True, slots=True)
class Expectations:
    """A campaign's outcome that consists of experiments with one expected result each."""

    experiments: int
    surprises: Sequence[str]
    """The names of the experiments whose result is not the expected one."""

    @property
    def good(self) -> bool:
        return self.experiments > 0 and not self.surprises

    def show(self, console: Console) -> None:
        console.print(f"{self.experiments - len(self.surprises)} of {self.experiments} as expected")
        if self.surprises:
            console.print(f"otherwise: {', '.join(self.surprises)}", style="red", markup=False)


def run_campaign(
    play: Callable[[Console, Path], Outcome],
    directory: Path | None = None,
    *,
    seed: int | None = None,
    failures: Sequence[type[Exception]] = (),
    look_at: str = "",
    look_again: Sequence[str] = (),
    console: Console | None = None,
) -> NoReturn:
    """Run the campaign `play`, print its verdict, and end the program: exit code 0 if the outcome is good, else 1.

    Without a `directory`, the campaign gets a temporary one. `seed` is the random seed of its plan, None if it has none. `failures` are
    exceptions that end the campaign without a verdict, in addition to those of brokers and clients. If there is a `directory`, two hints
    are printed: `look_at` says which of its files explain a bad verdict, and `look_again` lists arguments for `ottla` commands that show
    more, with `{}` in place of the directory.
    """
    console = console or new_console()
    began = time.perf_counter()
    with ExitStack() as stack:
        if directory is None:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="campaign-")))
        else:
            root = directory.absolute()
            replace(console, directory, RECORD)
            (directory / RECORD).write_text(f"{repeat_command(seed)}\n")
        if seed is not None:
            console.print(f"Seed {seed}. To repeat the plan: {repeat_command(seed)}", markup=False)
        see = f" (see {directory}: {look_at})" if look_at and directory is not None else ""
        with or_exit(console, f"The campaign could not be finished{see}", *failures):
            outcome = play(console, root)
        outcome.show(console)
    good = outcome.good
    console.print(f"{'[green]As promised' if good else '[bold red]NOT as promised'}[/], in {time.perf_counter() - began:.0f} s.")
    if directory is not None:  # a temporary one is deleted by now
        console.print(escape(f"Everything stays in {directory}{f': {look_at}' if look_at else '.'}"))
        for words in look_again:
            console.print(f"  {ottla_command()} {words.format(directory)}", soft_wrap=True)
    raise typer.Exit(0 if good else 1)


def repeat_command(seed: int | None) -> str:
    """Return the command that runs this campaign again with the same plan."""
    spec = sys.modules["__main__"].__spec__
    program = ["python", "-m", spec.name.removesuffix(".__main__")] if spec is not None else sys.argv[:1]
    seeded = [] if seed is None or "--seed" in sys.argv else ["--seed", str(seed)]
    return shlex.join([*program, *sys.argv[1:], *seeded])

"""The frame of every program of `client_compat`: it ends on a signal as on Ctrl-C, replaces only a directory of its own earlier run, and
reports in one line why it could not run.

Exit codes: 0, every result is the promised one; 1, some result is not, or the program could not run; 2, the arguments are wrong.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from client_compat.support.brokers import BrokerFailed
from client_compat.support.signals import end_on_signals
from client_compat.support.workers import RunFailed

PIPE_WIDTH = 150


def run(main: Callable[..., None]) -> None:
    """Run `main` as the command of this program. SIGTERM and SIGHUP end the command and its child processes."""
    end_on_signals()
    typer.run(main)


def new_console(*, stderr: bool = False, highlight: bool = True) -> Console:
    """Make a console; if the output is no terminal, the console is wide enough that long lines are not wrapped."""
    console = Console(stderr=stderr, highlight=highlight)
    return console if console.is_terminal else Console(stderr=stderr, highlight=highlight, width=PIPE_WIDTH)


def replace(console: Console, directory: Path, marker: str) -> None:
    """Create the empty directory `directory`. A directory of an earlier run, which contains the file `marker`, is emptied. If a file or any
    other non-empty directory is there, end the program."""
    if directory.exists() and not directory.is_dir():
        _refuse(console, directory, "is no directory")
    if directory.exists() and any(directory.iterdir()) and not (directory / marker).exists():
        _refuse(console, directory, "holds something that no run of this left")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        _refuse(console, directory, "cannot be emptied")


def _refuse(console: Console, directory: Path, why: str) -> NoReturn:
    console.print(f"[red]{escape(str(directory))} {why}: choose another with --dir.[/]")
    raise typer.Exit(2)


@contextmanager
def or_exit(console: Console, what: str, *others: type[Exception], code: int = 1) -> Iterator[None]:
    """End the program with exit code `code` if the context raises BrokerFailed, RunFailed or one of `others`. Print one line: `what`, and
    the error's text."""
    failures: tuple[type[Exception], ...] = (BrokerFailed, RunFailed, *others)
    try:
        yield
    except failures as failure:
        console.print(f"[red]{what}:[/] {escape(str(failure))}")
        raise typer.Exit(code) from None

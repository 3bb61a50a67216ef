"""What the commands share: how options are spelt, how tables and JSON are printed, how a command fails.

Rules: results go to standard output, everything else to standard error; a failure is one line that says what to do, and exit code 1
where the command says nothing else; a wrong argument is exit code 2, as Typer's own; where exit code 1 is what was found, so is all else
that went wrong.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Annotated, Any, ParamSpec

import typer
from rich.console import Console
from rich.table import Table

from ottla.broker.cli.basics import DEFAULT_PORT, EXIT_NO_RESULT, CliError, host_port, pairs
from ottla.protocol.printable import printable, printable_name

__all__ = [
    "BOOTSTRAP",
    "AsJson",
    "Bootstrap",
    "CliError",
    "ExtraMissing",
    "Yes",
    "command",
    "host_port",
    "judging",
    "note",
    "pairs",
    "print_json",
    "print_table",
    "say",
]

P = ParamSpec("P")
PLAIN_WIDTH = 1_000

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="OTTLA_BOOTSTRAP_SERVER",
        metavar="HOST:PORT[,…]",
        help="Any brokers of the cluster.",
    ),
]
BOOTSTRAP = f"localhost:{DEFAULT_PORT}"
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


class ExtraMissing(Exception):
    """A command's packages are those of an extra that is not installed; the text says how to get them."""

    def __init__(self, extra: str, error: ModuleNotFoundError) -> None:
        super().__init__(f"needs the packages of the extra '{extra}': pip install 'ottla[{extra}]' ({error})")
        self.extra = extra


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors that a user can act on into one line and exit code 1."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except CliError as error:
            text = printable(f"error: {error}")
            typer.echo(text if os.environ.get("NO_COLOR") else typer.style(text, fg=typer.colors.RED), err=True)
            raise typer.Exit(error.exit_code) from None

    return guarded


def judging(function: Callable[P, None]) -> Callable[P, None]:
    """The same for a command whose exit code 1 is a verdict: errors have one of their own."""

    @wraps(function)
    def judged(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except CliError as error:
            raise CliError(str(error), EXIT_NO_RESULT) from error

    return command(judged)


def note(text: str) -> None:
    """Say something that is not the result."""
    typer.echo(printable(text), err=True)


def say(text: str) -> None:
    """Print a result that is not a table."""
    typer.echo(printable(text))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Numbers to the right; None as a dash; as wide as needed when the output is not a terminal."""
    terminal = sys.stdout.isatty()
    table = Table(title=title, box=None if not terminal else Table().box, pad_edge=terminal, title_justify="left")
    body = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(body) and all(isinstance(row[index], int | None) for row in body)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=not terminal)
    for row in body:
        table.add_row(*("-" if cell is None else printable_name(str(cell)) for cell in row))
    Console(width=None if terminal else PLAIN_WIDTH, highlight=False, markup=False).print(table)


def print_json(document: Any) -> None:
    say(json.dumps(document, indent=2, ensure_ascii=False))

"""Shared parts of all commands: common options, tables and JSON, and error handling.

Rules:
- Results go to standard output, everything else to standard error.
- A failure prints one line that says what to do. Its exit code is 1 unless the command says otherwise, and 2 for a wrong argument, as in
  Typer. In commands whose exit code 1 is a verdict, every failure ends with 2.
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
    "print_rows",
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
        help="Bootstrap servers: any brokers of the cluster.",
    ),
]
BOOTSTRAP = f"localhost:{DEFAULT_PORT}"
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


class ExtraMissing(Exception):
    """The packages that a command needs belong to an extra that is not installed; the text says how to install it."""

    def __init__(self, extra: str, error: ModuleNotFoundError) -> None:
        super().__init__(f"needs the packages of the extra '{extra}': pip install 'ottla[{extra}]' ({error})")
        self.extra = extra


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Decorate a command's function: if it raises `CliError`, print the error as one line on standard error, and end with the error's exit
    code."""

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
    """Decorate the function of a command whose exit code 1 is a verdict, such as "access denied". If it raises `CliError`, print the error
    and end with exit code 2 (`EXIT_NO_RESULT`)."""

    @wraps(function)
    def judged(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except CliError as error:
            raise CliError(str(error), EXIT_NO_RESULT) from error

    return command(judged)


def note(text: str) -> None:
    """Print a text that is not a result, to standard error."""
    typer.echo(printable(text), err=True)


def say(text: str) -> None:
    """Print a result that is not a table, to standard output."""
    typer.echo(printable(text))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table: numbers right-aligned, None as a dash, and without wrapping if the output is not a terminal."""
    terminal = sys.stdout.isatty()
    table = Table(title=title, box=None if not terminal else Table().box, pad_edge=terminal, title_justify="left")
    body = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(body) and all(isinstance(row[index], int | None) for row in body)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=not terminal)
    for row in body:
        table.add_row(*("-" if cell is None else printable_name(str(cell)) for cell in row))
    Console(width=None if terminal else PLAIN_WIDTH, highlight=False, markup=False).print(table)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]], *, as_json: bool) -> None:
    """Print rows as a table, or, with `as_json`, as a JSON list of objects whose names are the `columns`."""
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)


def print_json(document: Any) -> None:
    say(json.dumps(document, indent=2, ensure_ascii=False))

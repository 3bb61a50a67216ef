"""What the commands share: how options are spelt, how tables and JSON are printed, how a command fails.

Rules: results go to standard output, everything else to standard error; a failure is one line that says what to do, and exit code 1
where the command says nothing else; a wrong argument is exit code 2, as Typer's own.
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

P = ParamSpec("P")
DEFAULT_PORT = 9092
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


class CliError(Exception):
    """Something the user can act on; printed as it is. `exit_code` becomes the command's."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ExtraMissing(Exception):
    """A command's packages are those of an extra that is not installed; the text says how to get them."""

    def __init__(self, extra: str, error: ModuleNotFoundError) -> None:
        super().__init__(f"needs the packages of the extra '{extra}': pip install 'ottla[{extra}]' ({error})")
        self.extra = extra


def host_port(address: str) -> tuple[str, int]:
    """`host[:port]`, `[ipv6]:port`; the port is Kafka's 9092 where none is given. Raises `CliError`."""
    host, colon, port = address.rpartition(":")
    if not colon or host.endswith(":") or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise CliError(f"{address!r} is no address: it looks like localhost:9092")
    return host.strip("[]"), int(port)


def pairs(settings: Iterable[str]) -> dict[str, str]:
    """`name=value` arguments. Raises `CliError`."""
    read = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise CliError(f"{setting!r} is not of the form name=value")
        read[name.strip()] = value
    return read


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors that a user can act on into one line and exit code 1."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except CliError as error:
            text = f"error: {error}"
            typer.echo(text if os.environ.get("NO_COLOR") else typer.style(text, fg=typer.colors.RED), err=True)
            raise typer.Exit(error.exit_code) from None

    return guarded


def note(text: str) -> None:
    """Say something that is not the result."""
    typer.echo(text, err=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Numbers to the right; None as a dash; as wide as needed when the output is not a terminal."""
    terminal = sys.stdout.isatty()
    table = Table(title=title, box=None if not terminal else Table().box, pad_edge=terminal, title_justify="left")
    body = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(body) and all(isinstance(row[index], int | None) for row in body)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=not terminal)
    for row in body:
        table.add_row(*("-" if cell is None else str(cell) for cell in row))
    Console(width=None if terminal else PLAIN_WIDTH, highlight=False, markup=False).print(table)


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))

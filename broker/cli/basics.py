"""Errors of commands, and parsing of addresses, numbers and `name=value` arguments. Does not import the command line's libraries."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

DEFAULT_PORT: Final = 9092
EXIT_NO_RESULT: Final = 2
"""The exit code for a failure in commands that use exit code 1 for a negative verdict, such as "denied": audit, explain, dedup, verify,
acls explain, transactions find-hanging."""
_PORT_MAX = 65_535
NumberT = TypeVar("NumberT", int, float)


class CliError(Exception):
    """An error that the user can act on. It is printed without a traceback, and the command ends with `exit_code`."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def host_port(address: str) -> tuple[str, int]:
    """Parse `host[:port]` or `[ipv6]:port`; the default port is 9092. Raises `CliError` for any other text."""
    host, colon, port = address.rpartition(":")
    if not colon or host.endswith(":") or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise CliError(f"{address!r} is not an address: use HOST:PORT, such as localhost:9092")
    return host.strip("[]"), int(port)


def pairs(settings: Iterable[str]) -> dict[str, str]:
    """Return the values of `name=value` arguments by name. Raises `CliError` for an argument without `=`."""
    read = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise CliError(f"{setting!r} is not of the form name=value")
        read[name.strip()] = value
    return read


def help_formatter(prog: str) -> argparse.HelpFormatter:
    """Make a formatter with the terminal's width. argparse's own would import shutil, and with it three compression libraries."""
    try:
        columns = os.get_terminal_size().columns
    except OSError:
        columns = 80
    return argparse.HelpFormatter(prog, width=columns - 2)


def port_number(text: str) -> int:
    """Parse a port number, 0 to 65535, for argparse. Raises ArgumentTypeError for any other text."""
    if not text.isdecimal() or int(text) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: use a number from 0 to {_PORT_MAX}")
    return int(text)


def at_least(least: int) -> Callable[[str], int]:
    """Return a parser for argparse that accepts integers from `least` on, and raises ArgumentTypeError for anything else."""
    return partial(_at_least, int, least)


def duration_ms(text: str) -> float:
    """Parse a number of milliseconds, 0 or more, for argparse. Raises ArgumentTypeError for any other text."""
    return _at_least(float, 0, text)


def _at_least(kind: Callable[[str], NumberT], least: int, text: str) -> NumberT:
    try:
        number = kind(text)
    except ValueError:
        number = None
    if number is None or not number >= least:  # not `number < least`, which NaN would pass
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {least}")
    return number

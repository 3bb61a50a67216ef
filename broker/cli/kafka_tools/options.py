"""Shared parts of the tools: option parsing, connecting to a cluster, waiting for it, and error handling.

Sources: KAFKA CommandLineUtils (usage errors end with exit code 1), and the clients' default.api.timeout.ms.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import AdminClient, ErrorResponse, Unreachable
from ottla.broker.cli.security import use, use_properties
from ottla.protocol.import_without_init import module_of

OF_KAFKA: Final = "4.4.0"
_PATIENCE_MS: Final = 60_000
_PAUSE_S: Final = 0.1


class ToolParser(argparse.ArgumentParser):
    """A parser that follows Kafka's tools: a usage error ends with exit code 1, and an option may be abbreviated if that is unambiguous."""

    def __init__(self, prog: str, description: str = "", **more: Any) -> None:
        super().__init__(prog=prog, description=description, **more)
        self.add_argument("--version", action="version", version=f"{OF_KAFKA} (Ottla)", help="show the Kafka version of these tools")

    def error(self, message: str) -> NoReturn:
        print(f"{message}\n\n{self.format_usage()}", file=sys.stderr, end="")
        raise SystemExit(1)

    def flag(self, *names: str, about: str = "") -> None:
        """Add an option without a value, under all `names`. `about` is its help text."""
        self.add_argument(*names, action="store_true", help=about)

    def listed(self, *names: str, about: str = "", dest: str | None = None) -> None:
        """Add an option that may be repeated, under all `names`. `about` is its help text; `dest` is the attribute for the list of its
        values, by default the first name."""
        name = dest or names[0].lstrip("-").replace("-", "_")
        self.add_argument(*names, action="append", default=[], help=about, dest=name)

    def cluster_options(self, *more_config_names: str) -> None:
        """Add the options for the cluster's address and for the file with client security settings. `more_config_names` are further names
        of the option --command-config."""
        self.add_argument("--bootstrap-server", "--broker-list", metavar="HOST:PORT[,…]", help="the servers to connect to")
        self.add_argument(
            "--command-config", *more_config_names, dest="command_config", type=Path, metavar="FILE", help="client.properties"
        )
        self.add_argument("--zookeeper", help=argparse.SUPPRESS)

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse the options. Raises SystemExit for a usage error, and if the cluster's address is required but missing."""
        options = self.parse_args(argv)
        if getattr(options, "zookeeper", None):
            self.error("zookeeper is not a recognized option: Ottla does not use ZooKeeper, name a broker with --bootstrap-server")
        if "bootstrap_server" in options and not options.bootstrap_server:
            self.error('Missing required argument "[bootstrap-server]"')
        return options

    def one_of(self, options: argparse.Namespace, *actions: str) -> str:
        """Return which of the options `actions` was given. Raises SystemExit unless exactly one of them was."""
        given = [name for name in actions if getattr(options, name.replace("-", "_"))]
        if len(given) != 1:
            self.error(f"Command must include exactly one action: {', '.join(f'--{name}' for name in actions)}")
        return given[0]


def cluster_of(options: argparse.Namespace) -> AdminClient:
    """Return a client for the cluster that the options name; wait until a broker answers. Raises `CliError` if none answers within
    default.api.timeout.ms, a minute by default."""
    patience_ms = float(read_config(options).get("default.api.timeout.ms", _PATIENCE_MS))
    deadline = time.monotonic() + patience_ms / 1000
    was_printed = False
    while True:
        client = AdminClient(options.bootstrap_server)
        try:
            client.metadata()
        except Unreachable as error:
            if time.monotonic() > deadline:
                raise
            if not was_printed:
                print(f"WARN {error} Trying again for {patience_ms / 1000:.0f} s.", file=sys.stderr)
            was_printed = True
            time.sleep(_PAUSE_S)
        else:
            return client


def read_config(options: argparse.Namespace) -> dict[str, str]:
    """Return the properties in the file of --command-config (none without that option), and use its security settings for all connections.
    Raises `CliError` if the file cannot be used."""
    if options.command_config is None:
        use_properties({})
        return {}
    use(options.command_config)
    with options.command_config.open(encoding="utf-8") as lines:
        found: dict[str, str] = module_of("javaproperties", "reading").load(lines)
    return found


class UsageError(CliError):
    """A usage error that is found only after the options were parsed; it is reported like an unknown option, with the usage."""


def guarded(what: str, code: int = 1, *, aside: bool = False) -> Callable[[Callable[[Sequence[str]], int]], Callable[[Sequence[str]], int]]:
    """Return a decorator for a tool's main function: if the function raises a CliError, the tool ends with exit code `code`. The error's
    text is printed after the prefix `what`, as Kafka's tools do, to standard output or, with `aside`, to standard error."""

    def around(main: Callable[[Sequence[str]], int]) -> Callable[[Sequence[str]], int]:
        def run(argv: Sequence[str]) -> int:
            try:
                return main(argv)
            except CliError as error:
                print(
                    f"{what}{error.error_message if isinstance(error, ErrorResponse) else error}", file=sys.stderr if aside else sys.stdout
                )
                return code
            except BrokenPipeError:  # the reader of our output has stopped, such as `head`
                sys.stderr.close()
                return 0

        return run

    return around


def error_line(text: str) -> None:
    """Print to standard output that one item failed, as Kafka's tools do; the tool continues with the next item."""
    print(f"\nError: {text}")


def comma_list(text: str) -> list[tuple[str, str]]:
    """Parse a text such as `k1=v1,k2=[v2,v3]`, and return its (name, value) pairs. Commas inside brackets do not separate pairs. Raises
    `CliError` for a text of another form."""
    items, depth, current = list[str](), 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            items.append(current)
            current = ""
        else:
            current += letter
    found = []
    for item in filter(None, (each.strip() for each in [*items, current])):
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise CliError('requirement failed: Invalid entity config: all configs to be added must be in the format "key=val".')
        found.append((name.strip(), value[1:-1] if value.startswith("[") and value.endswith("]") else value))
    return found


def columns(rows: Sequence[Sequence[Any]], widths: Sequence[int]) -> str:
    """Format a table as Kafka's tools do: a line break before each row, and each column padded to its width in `widths`. Columns for which
    `widths` has no width are not padded."""
    last = len(widths)
    return "".join("\n" + " ".join(f"{cell!s:<{widths[at]}}" if at < last else str(cell) for at, cell in enumerate(row)) for row in rows)

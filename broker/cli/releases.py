"""`ottla releases`: the releases of Apache Kafka that `ottla serve --like` knows, and what changed between two."""

from __future__ import annotations

from typing import Annotated

import typer

from ottla.broker.cli.common import AsJson, CliError, command, print_json, print_rows, print_table
from ottla.broker.releases.changes import COLUMNS, changes, summary
from ottla.broker.releases.table import UnknownRelease, releases, table_of


@command
def list_releases(
    first: Annotated[str | None, typer.Argument(help="A release: 3.3. Without one, all releases are listed.", metavar="[BEFORE]")] = None,
    second: Annotated[str | None, typer.Argument(help="A later release; by default the next one.", metavar="[AFTER]")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the releases of Apache Kafka that a broker can be like, or what changed between two.

    `ottla releases` lists them; `ottla releases 3.3 3.9` shows which APIs, features and settings 3.9 added, changed or removed since 3.3.
    The tables were recorded from real brokers (docs/releases.md).
    """
    if first is None:
        rows = [summary(table) for table in releases().values()]
        print_rows(COLUMNS, rows, as_json=as_json)
        return
    try:
        before = table_of(first)
        after = table_of(second or _next(before.release))
    except UnknownRelease as error:
        raise CliError(str(error), 2) from error
    found = list(changes(before, after))
    if as_json:
        print_json([change._asdict() for change in found])
    else:
        print_table(("kind", "name", before.version, after.version), found)


def _next(release: str) -> str:
    """Return the release after this one. Raises CliError."""
    known = list(releases())
    at = known.index(release) + 1
    if at == len(known):
        raise CliError(f"{release} is the newest known release: name the one to compare it with, as in ottla releases 3.9 {release}", 2)
    return known[at]

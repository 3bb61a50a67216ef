"""`ottla releases`: the releases of Apache Kafka that `ottla serve --like` knows, what changed between two, and what Ottla lacks of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from ottla.broker.api.offered import COLUMN, unserved_counts
from ottla.broker.api.offered import unserved as missing
from ottla.broker.cli.common import AsJson, CliError, command, print_json, print_rows, print_table
from ottla.broker.releases.changes import COLUMNS, Change, changes, summary
from ottla.broker.releases.release_behaviour import behaviour_of
from ottla.broker.releases.table import UnknownRelease, releases, table_of


@command
def list_releases(
    first: Annotated[str | None, typer.Argument(help="A release: 3.3. Without one, all releases are listed.", metavar="[BEFORE]")] = None,
    second: Annotated[str | None, typer.Argument(help="A later release; by default the next one.", metavar="[AFTER]")] = None,
    unserved: Annotated[
        str | None, typer.Option(metavar="RELEASE", help="Show what this release offers and a broker that is like it does not.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the releases of Apache Kafka that a broker can be like, what changed between two, or what Ottla lacks of one.

    `ottla releases` lists them; `ottla releases 3.3 3.9` shows which APIs, features and settings 3.9 added, changed or removed since 3.3.
    `ottla releases --unserved 4.4` shows what Apache Kafka 4.4 offers and `ottla serve --like 4.4` does not. The tables were recorded from
    real brokers (docs/releases.md).
    """
    try:
        if unserved is not None:
            if first is not None:
                raise CliError("--unserved names the release itself: give no other", 2)
            like = behaviour_of(unserved)
            _print_changes(missing(like), like.table.version, f"--like {like.release}", as_json=as_json)
        elif first is not None:
            before = table_of(first)
            after = table_of(second or _next(before.release))
            _print_changes(changes(before, after), before.version, after.version, as_json=as_json)
        else:
            rows = [(*summary(table), unserved_counts(behaviour_of(release))) for release, table in releases().items()]
            print_rows((*COLUMNS, COLUMN), rows, as_json=as_json)
    except UnknownRelease as error:
        raise CliError(str(error), 2) from error


def _print_changes(found: Iterable[Change], before: str, after: str, *, as_json: bool) -> None:
    if as_json:
        print_json([change._asdict() for change in found])
    else:
        print_table(("kind", "name", before, after), found)


def _next(release: str) -> str:
    """Return the known release after `release`. Raises CliError if `release` is the newest one."""
    known = list(releases())
    at = known.index(release) + 1
    if at == len(known):
        raise CliError(f"{release} is the newest known release: name the one to compare it with, as in ottla releases 3.9 {release}", 2)
    return known[at]

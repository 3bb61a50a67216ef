"""`ottla fork`: copies a data directory, also one in use, without touching it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ottla.broker.cli.common import CliError, command, note, say
from ottla.broker.cli.forking import fork_directory, summary
from ottla.broker.storage.fork import ForkRefused


@command
def fork_(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The data directory of an Ottla or Apache Kafka node, or of several.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The copy; must not exist.")],
    *,
    copy: Annotated[
        bool, typer.Option("--copy", help="Share nothing by hard links: for a copy on which Apache Kafka, not Ottla, will run.")
    ] = False,
) -> None:
    """Copy a data directory of Ottla or Apache Kafka, of a stopped broker or a running one, which is not disturbed.

    Closed segments are shared with the original (reflinks or hard links), so a copy takes little time and space. Neither directory changes
    the other. The copy of a running broker is what a crash at that moment would leave.

    For example: ottla fork /var/lib/kafka/data yesterday && ottla serve --data-dir yesterday
    """
    try:
        report = fork_directory(directory, new, links=not copy)
    except ForkRefused as refused:
        raise CliError(str(refused)) from refused
    say(summary(report))
    if not report.consistent:
        note(
            "Transactions or topics changed all the time while the logs were measured: a transaction of that moment may look unfinished. "
            "Stop the broker, or fork again under less load, for an exact copy."
        )

"""The command-line options of `ottla audit --follow`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.spark_jobs.engines import EMBEDDED
from ottla.spark_jobs.session import CannotJudge

ONLY_FOLLOW: Final = frozenset({"checkpoint", "trigger", "once"})
ALSO_FOLLOW: Final = frozenset(
    {
        "paths",
        "topic",
        "json_file",
        "tables",
        "table_format",
        "producer_expiration_ms",
        "transaction_max_timeout_ms",
        "engine",
        "master",
        "follow",
    }
)
"""The parameters of `ottla audit`, by their Python names, that may be given together with --follow, beside those in ONLY_FOLLOW, which need
it."""

Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="Go on judging what is appended, with Spark, and print each violation and warning as it appears; needs --checkpoint. "
        "Judged continuously: duplicate-sequence, sequence-gap, sequence-order, epochs, offsets, leader-epochs, timestamps, crc, counts, "
        "hanging-transaction (by age alone), zombie-batch, mixed-transaction, markers. All other rules need a whole log: they compare "
        "index files, snapshots, replicas, what __transaction_state and groups say, or records' contents.",
    ),
]
Checkpoint = Annotated[Path | None, typer.Option(help="Directory where --follow keeps how far it is; a restart goes on from there.")]
Trigger = Annotated[float, typer.Option(min=0.1, help="Seconds between two looks of --follow.")]
Once = Annotated[bool, typer.Option("--once", help="With --follow: judge what is there since the last time, and stop.")]


def check_options(context: typer.Context, *, follow: bool) -> None:
    """Raise CannotJudge if the command line has an option that would have no effect: an option of --follow without --follow, or with
    --follow an option of the batch audit."""
    given = [each for each in context.command.params if getattr(context.get_parameter_source(each.name or ""), "name", "") == "COMMANDLINE"]
    if not follow:
        unused = [each for each in given if each.name in ONLY_FOLLOW]
        reason = "is for --follow"
    else:
        unused = [each for each in given if each.name not in ONLY_FOLLOW | ALSO_FOLLOW]
        reason = "cannot be combined with --follow"
        if context.params["engine"] == EMBEDDED:
            raise CannotJudge("--follow needs Spark: leave --engine duckdb away")
    if unused:
        raise CannotJudge(f"{unused[0].opts[0]} {reason}")

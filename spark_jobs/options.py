"""Command-line options of `ottla audit`, with the help that it prints for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

PARQUET_SAMPLES: Final = 100_000

Directories = Annotated[
    list[str] | None, typer.Argument(metavar="DIR...", help="Log directories of Ottla or of Apache Kafka, judged side by side.")
]
KeyField = Annotated[
    str | None,
    typer.Option(help="What names each record once: a field of the JSON value (order.id), header:NAME, or key: (the record's key)."),
]
Deep = Annotated[
    bool | None, typer.Option(help="Also compare the records' contents; by default only where duckdb judges.", show_default=False)
]
RetriesAbsorbed = Annotated[
    list[int] | None, typer.Option(help="The broker's own count to show beside each DIR; the log does not hold it.")
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the whole verdict to this file; - for standard output.")]
Html = Annotated[Path | None, typer.Option(help="Write one self-contained page with pictures to this file.")]
Junit = Annotated[Path | None, typer.Option(help="Write JUnit XML to this file: a suite each DIR, a case each rule.")]
Parquet = Annotated[Path | None, typer.Option(help=f"Write the findings to this Parquet file, {PARQUET_SAMPLES:,} of each rule.")]
Estimated = Annotated[
    bool,
    typer.Option("--estimate", help="Only list the logs, and tell what this audit would cost on Spark with the cores of --master."),
]
Resume = Annotated[
    Path | None, typer.Option(help="Keep the results of Spark's tasks in this directory; a restarted audit judges only what is left.")
]

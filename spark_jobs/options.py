"""The command-line options of `ottla audit` that name what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

PARQUET_SAMPLES: Final = 100_000

JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the whole verdict to this file; - for standard output.")]
Html = Annotated[Path | None, typer.Option(help="Write one self-contained page with pictures to this file.")]
Junit = Annotated[Path | None, typer.Option(help="Write JUnit XML to this file: a suite each DIR, a case each rule.")]
Parquet = Annotated[Path | None, typer.Option(help=f"Write the findings to this Parquet file, {PARQUET_SAMPLES:,} of each rule.")]
Resume = Annotated[
    Path | None, typer.Option(help="Keep the results of Spark's tasks in this directory; a restarted audit judges only what is left.")
]

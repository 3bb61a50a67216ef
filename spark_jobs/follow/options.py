"""The command-line options of `ottla audit --follow`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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

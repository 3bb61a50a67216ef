"""What the continuous audit keeps in its checkpoint directory, beside Spark's own checkpoint of the stream.

Rules that hold here: what a micro-batch gave is written under its number, whole or not at all, before Spark notes the micro-batch as done.
So a micro-batch that is done again, after a kill, begins with what the one before it gave, or is known to be complete. The last two are
kept.

    DIR/spark/           Spark's checkpoint: how far each log was read
    DIR/judged/N.parquet what is remembered after micro-batch N
    DIR/judged/N.told    its findings are printed
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.spark_jobs.session import CannotJudge


class Memory:
    """The checkpoint directory, made if it is not there."""

    def __init__(self, directory: Path) -> None:
        self._judged = directory / "judged"
        self._judged.mkdir(parents=True, exist_ok=True)
        self.stream = directory / "spark"
        """Where Spark keeps its own checkpoint."""

    def before(self, number: int) -> pa.Table | None:
        """What is remembered when micro-batch `number` begins; None before the first. Raises CannotJudge where it is lost."""
        if number == 0:
            return None
        file = self._file(number - 1)
        if not file.exists():
            raise CannotJudge(f"{file} is missing: the checkpoint is not whole. Begin anew with an empty directory")
        return pq.read_table(file)

    def told(self, number: int) -> bool:
        """Whether a micro-batch was judged and its findings told, before a stop that Spark did not hear of."""
        return self._file(number).exists() and self._file(number).with_suffix(".told").exists()

    def keep(self, number: int, state: pa.Table) -> None:
        """Remember what a micro-batch gave. It is on disk when this returns."""
        file = self._file(number)
        partial = file.with_suffix(".partial")
        with partial.open("wb") as out:
            pq.write_table(state, out, compression="zstd")
            out.flush()
            os.fsync(out.fileno())
        partial.replace(file)

    def note_told(self, number: int) -> None:
        """The findings of a micro-batch are out; what nothing needs any more goes."""
        self._file(number).with_suffix(".told").touch()
        for old in self._judged.iterdir():
            if old.stem.isdigit() and int(old.stem) < number - 1:
                old.unlink()

    def _file(self, number: int) -> Path:
        return self._judged / f"{number}.parquet"

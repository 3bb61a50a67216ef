"""The continuous audit's state in its checkpoint directory, beside Spark's own checkpoint of the stream.

Invariants:
- The state after a micro-batch is written atomically, under the micro-batch's number, before Spark commits the micro-batch.
- Therefore a micro-batch that is repeated after a kill starts from the state of the previous one, or is skipped if it was complete.
- The states of the last two micro-batches are kept.

    DIR/spark/           Spark's checkpoint: how far each log was read
    DIR/judged/N.parquet the state after micro-batch N
    DIR/judged/N.told    a mark: the findings of micro-batch N are printed
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.spark_jobs.session import CannotJudge


class Memory:
    """The checkpoint directory. It is created if it does not exist."""

    def __init__(self, directory: Path) -> None:
        self._judged = directory / "judged"
        self._judged.mkdir(parents=True, exist_ok=True)
        self.stream = directory / "spark"
        """The directory of Spark's own checkpoint."""

    def before(self, number: int) -> pa.Table | None:
        """Return the state before micro-batch `number`; None before the first. Raises CannotJudge if the state is missing."""
        if number == 0:
            return None
        file = self._file(number - 1)
        if not file.exists():
            raise CannotJudge(f"{file} is missing: the checkpoint is not whole. Begin anew with an empty directory")
        return pq.read_table(file)

    def told(self, number: int) -> bool:
        """Return whether the micro-batch was judged and its findings printed. If so and Spark repeats it, the process stopped before
        Spark's commit."""
        return self._file(number).exists() and self._file(number).with_suffix(".told").exists()

    def keep(self, number: int, state: pa.Table) -> None:
        """Write the state after a micro-batch. It is synced to disk before the method returns."""
        file = self._file(number)
        partial = file.with_suffix(".partial")
        with partial.open("wb") as out:
            pq.write_table(state, out, compression="zstd")
            out.flush()
            os.fsync(out.fileno())
        partial.replace(file)

    def note_told(self, number: int) -> None:
        """Mark the findings of a micro-batch as printed, and delete states that are no longer needed."""
        self._file(number).with_suffix(".told").touch()
        for old in self._judged.iterdir():
            if old.stem.isdigit() and int(old.stem) < number - 1:
                old.unlink()

    def _file(self, number: int) -> Path:
        return self._judged / f"{number}.parquet"

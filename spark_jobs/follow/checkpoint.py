"""The continuous audit's state in its checkpoint directory, beside Spark's own checkpoint of the stream.

Invariants:
- The state after a micro-batch is written atomically, under the micro-batch's number: after the micro-batch's findings, and before Spark
  commits the micro-batch. If the state exists, the findings are complete.
- Therefore a micro-batch that Spark repeats after a kill is skipped if its state exists. If not, it starts from the state of the previous
  one, and its findings replace those that the killed run wrote (see `JsonLines`).
- The states of the last two micro-batches are kept.

    DIR/spark/           Spark's checkpoint: how far each log was read
    DIR/judged/N.parquet the state after micro-batch N
    DIR/id               the checkpoint's name in tables of findings
    DIR/lines.json       the micro-batch that writes to the file of JSON lines, and the file's size before
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.spark_jobs.durable import write_atomically
from ottla.spark_jobs.session import CannotJudge
from ottla.spark_jobs.sinks import TableFormat, open_sink
from ottla.spark_jobs.sinks.schemas import FOLLOWED_FINDINGS

LINES: Final = "lines.json"


class FollowCheckpoint:
    """The checkpoint directory of the continuous audit. It is created if it does not exist."""

    def __init__(self, directory: Path) -> None:
        self._judged = directory / "judged"
        self._judged.mkdir(parents=True, exist_ok=True)
        self.stream = directory / "spark"
        """The subdirectory in which Spark stores its own checkpoint of the stream."""
        self._id = directory / "id"

    def identity(self) -> str:
        """Return the unique name of this checkpoint. It is created once and stored, so a restart gets the same name."""
        if not self._id.exists():
            write_atomically(self._id, lambda out: out.write(uuid.uuid4().hex.encode()))
        return self._id.read_text(encoding="ascii")

    def state_before(self, number: int) -> pa.Table | None:
        """Return the state after the previous micro-batch (`number - 1`): the batch rows that represent the log read so far. Return None if
        `number` is 0. Raises CannotJudge if the state is missing."""
        if number == 0:
            return None
        file = self._file(number - 1)
        if not file.exists():
            raise CannotJudge(f"{file} is missing: the checkpoint is not whole. Begin anew with an empty directory")
        return pq.read_table(file)

    def judged(self, number: int) -> bool:
        """Return whether micro-batch `number` was judged and its findings were written. If so, a repetition of the micro-batch by Spark
        must be skipped: the process was killed after that, but before Spark committed the micro-batch."""
        return self._file(number).exists()

    def store_state(self, number: int, state: pa.Table) -> None:
        """Write the state after micro-batch `number` (batch rows that represent the log read so far), synced to disk. Delete all states but
        the last two."""
        write_atomically(self._file(number), lambda out: pq.write_table(state, out, compression="zstd"))
        for old in self._judged.iterdir():
            if old.stem.isdigit() and int(old.stem) < number - 1:
                old.unlink()

    def _file(self, number: int) -> Path:
        return self._judged / f"{number}.parquet"


class JsonLines:
    """A file of JSON lines with each finding once, although Spark may repeat a micro-batch: a repeated micro-batch first removes the lines
    that its killed attempt appended. Only one run at a time may append to the file."""

    def __init__(self, file: Path, checkpoint: Path) -> None:
        self._file = file.absolute()
        self._begun = checkpoint / LINES

    def append(self, number: int, lines: Sequence[str]) -> None:
        """Append the findings of micro-batch `number`, each as one line, and sync the file to disk. If an earlier attempt of the same
        micro-batch appended lines, they are replaced. Raises OSError if the file cannot be written."""
        size = self._file.stat().st_size if self._file.exists() else 0
        begun = json.loads(self._begun.read_text(encoding="utf-8")) if self._begun.exists() else {}
        if (begun.get("micro_batch"), begun.get("file")) == (number, str(self._file)):
            size = min(size, begun["size"])
        elif not lines:
            return
        else:
            content = json.dumps({"micro_batch": number, "file": str(self._file), "size": size}).encode()
            write_atomically(self._begun, lambda out: out.write(content))
        with self._file.open("ab") as out:
            out.truncate(size)
            out.write("".join(f"{line}\n" for line in lines).encode())
            out.flush()
            os.fsync(out.fileno())


class FindingsTable:
    """A table that contains each finding once, although Spark may repeat a micro-batch: each commit also stores the number of the
    micro-batch that it appends."""

    def __init__(self, kind: TableFormat, directory: str | Path, checkpoint: Path) -> None:
        self._kind = kind
        self._directory = directory
        self._key = f"follow-{FollowCheckpoint(checkpoint.absolute()).identity()}"

    def append(self, number: int, findings: Sequence[Mapping[str, Any]]) -> None:
        """Append the findings of micro-batch `number`. Do nothing if an earlier attempt appended them before it was killed. Raises
        CannotJudge if the table cannot be opened or another run has changed it, OSError if it cannot be written."""
        if not findings:
            return
        rows = [{**finding, "micro_batch": number, "evidence": json.dumps(finding["evidence"], default=str)} for finding in findings]
        with open_sink(self._kind, self._directory, FOLLOWED_FINDINGS) as sink:
            last = sink.progress(self._key)
            if last is None or last < number:
                sink.commit(sink.staging.stage(pa.Table.from_pylist(rows, FOLLOWED_FINDINGS.schema)), {self._key: number})

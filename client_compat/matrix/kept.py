"""The cells that a run finished, a line of JSON each, so that a run that was stopped can be taken up again.

Rules: a line is written as soon as its cell is done; of two lines of one cell the later counts; a torn last line, left by a killed run, is
passed over.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from client_compat.matrix.control import Ready
from client_compat.matrix.outcomes import Cell, Outcome

DONE = (Outcome.PASS, Outcome.UNSUPPORTED)
"""What is not run again: what failed or was skipped may have been mended or installed since."""


class Kept:
    """Finished cells, and how their clients introduced themselves, in `file`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.cells: dict[tuple[str, str, str], Cell] = {}
        self.ready: dict[str, Ready] = {}
        if file.exists():
            for line in file.read_text().splitlines():
                self._take(line)

    def add(self, cell: Cell, ready: Ready | None) -> None:
        self.cells[cell.key] = cell
        if ready is not None:
            self.ready[cell.client] = ready
        with self._file.open("a") as sink:
            sink.write(json.dumps({"cell": asdict(cell), "ready": None if ready is None else asdict(ready)}) + "\n")

    def done(self, client: str, scenario: str, broker: str) -> bool:
        """Whether this cell need not be run again."""
        cell = self.cells.get((client, scenario, broker))
        return cell is not None and cell.outcome in DONE

    def _take(self, line: str) -> None:
        try:
            found = json.loads(line)
        except ValueError:
            return
        cell = Cell(**{**found["cell"], "outcome": Outcome(found["cell"]["outcome"])})
        self.cells[cell.key] = cell
        if found["ready"] is not None:
            self.ready[cell.client] = Ready(**found["ready"])

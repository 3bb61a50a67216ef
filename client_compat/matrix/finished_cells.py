"""The finished cells (each a scenario with a client on a broker) of a run, one line of JSON each, so that a stopped run can be resumed.

Rules:
- A line is written as soon as its cell is finished.
- If a cell has several lines, the last one counts.
- An incomplete last line, written by a killed run, is ignored.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from client_compat.matrix.control import Ready
from client_compat.matrix.outcomes import Cell, Outcome

DONE = (Outcome.PASS, Outcome.UNSUPPORTED)
"""Outcomes of cells (scenarios with a client on a broker) that a resumed run does not run again. Other outcomes may change: a bug may have
been fixed, or a toolchain installed."""


class FinishedCells:
    """The finished cells of a run (each a scenario with a client on a broker) and their clients' version info, stored in `file`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.cells: dict[tuple[str, str, str], Cell] = {}
        self.ready: dict[str, Ready] = {}
        if file.exists():
            for line in file.read_text().splitlines():
                self._add_line(line)

    def add(self, cell: Cell, ready: Ready | None) -> None:
        self.cells[cell.key] = cell
        if ready is not None:
            self.ready[cell.client] = ready
        with self._file.open("a") as sink:
            sink.write(json.dumps({"cell": asdict(cell), "ready": None if ready is None else asdict(ready)}) + "\n")

    def done(self, client: str, scenario: str, broker: str) -> bool:
        """Return whether the file has a result of this cell (a scenario with a client on a broker) that needs no further run."""
        cell = self.cells.get((client, scenario, broker))
        return cell is not None and cell.outcome in DONE

    def _add_line(self, line: str) -> None:
        try:
            found = json.loads(line)
        except ValueError:
            return
        cell = Cell(**{**found["cell"], "outcome": Outcome(found["cell"]["outcome"])})
        self.cells[cell.key] = cell
        if found["ready"] is not None:
            self.ready[cell.client] = Ready(**found["ready"])

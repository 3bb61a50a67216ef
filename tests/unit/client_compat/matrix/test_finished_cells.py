"""A matrix run that was stopped continues where it was."""

from __future__ import annotations

from pathlib import Path

from client_compat.matrix.control import Ready
from client_compat.matrix.finished_cells import FinishedCells
from client_compat.matrix.outcomes import Cell, Outcome

READY = Ready("c", "1.0", "go")


def test_passed_and_unsupported_cells_are_not_run_again_and_failed_ones_are(tmp_path: Path) -> None:
    finished = FinishedCells(tmp_path / "cells")
    for outcome in Outcome:
        finished.add(Cell("c", f"a/{outcome}", "ottla", outcome, "why", 1.5), READY)
    again = FinishedCells(tmp_path / "cells")
    assert [outcome for outcome in Outcome if again.done("c", f"a/{outcome}", "ottla")] == [Outcome.PASS, Outcome.UNSUPPORTED]
    assert again.cells == finished.cells
    assert again.ready == {"c": READY}
    assert not again.done("c", "a/pass", "kafka")


def test_later_result_of_a_cell_counts(tmp_path: Path) -> None:
    finished = FinishedCells(tmp_path / "cells")
    finished.add(Cell("c", "a/s", "ottla", Outcome.FAIL), None)
    finished.add(Cell("c", "a/s", "ottla", Outcome.PASS), None)
    assert FinishedCells(tmp_path / "cells").done("c", "a/s", "ottla")


def test_torn_line_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "cells"
    FinishedCells(file).add(Cell("c", "a/s", "ottla", Outcome.PASS), None)
    with file.open("a") as sink:
        sink.write('{"cell": {"client"')
    assert len(FinishedCells(file).cells) == 1

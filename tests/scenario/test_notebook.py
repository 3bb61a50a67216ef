"""The notebook of the docs runs from the first to the last cell, and is committed without outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest

from ottla.spark_jobs.corpus import payments

NOTEBOOK = Path(__file__).parents[2] / "docs" / "examples" / "log-to-plots.ipynb"


@pytest.fixture
def figures() -> Iterator[None]:
    """Draw figures into memory, and close them afterwards."""
    matplotlib.use("Agg")
    yield
    plt.close("all")


@pytest.mark.usefixtures("figures")
def test_the_notebook_draws_three_plots_of_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    payments.plant(tmp_path / "logs")
    monkeypatch.setenv("OTTLA_LOGS", str(tmp_path / "logs"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(plt, "show", lambda: None)
    cells = [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
    assert "violation" in capsys.readouterr().out
    drawn = {axes.get_title(): axes for number in plt.get_fignums() for axes in plt.figure(number).axes}
    assert sorted(drawn) == ["Committed records", "Producers", "Transactions"]
    assert sum(sum(line.get_ydata()) for line in drawn["Committed records"].lines) == 6
    assert len(drawn["Producers"].patches) == len(names["query"](f"FROM {names['table']('producers')}"))
    assert sum(bar.get_height() for bar in drawn["Transactions"].patches) > 0

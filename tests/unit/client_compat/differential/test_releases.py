from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.differential import releases
from client_compat.differential.releases import BEGIN, END, differential_of_releases, versions_of, with_rows
from client_compat.differential.run import Difference, Report
from client_compat.differential.scenarios import SCENARIOS
from client_compat.kafka.jars import KafkaMissing

PAGE = Path(__file__).resolve().parents[4] / "docs" / "releases.md"
DIFFERENCES = [Difference("s", "l", "FETCH", 12, "error_code", 0, 1, why) for why in ("", "", "", "meant")]
OF_ALL = Report("3.9.2", 1234, scenarios=list(SCENARIOS)[:-3], not_asked=["a", "b", "c"], differences=DIFFERENCES, cut_short={"one", "two"})


def test_a_release_is_compared_in_its_last_patch_and_all_are_each_release_once() -> None:
    assert versions_of("3.7") == versions_of("3.7.0") == ("3.7.2",)
    assert len(versions_of("all")) == 16
    with pytest.raises(ValueError, match=r"1\.0 is no release"):
        versions_of("1.0")


def test_run_replaces_only_its_row_and_counts_its_scenarios() -> None:
    page = with_rows(f"before\n{BEGIN}{END}after\n", [OF_ALL, Report("2.8.2", 5, scenarios=["one"])])
    again = with_rows(page, [Report("2.8.2", 6, scenarios=["one", "two"])])
    rows = [line for line in again.splitlines() if line.startswith(("| 2", "| 3"))]
    assert rows == [
        f"| 3.9.2 | all {len(SCENARIOS) - 3} | 2 | 3 | 1,234 | 1 | 3 |",
        f"| 2.8.2 | 2 of {len(SCENARIOS)} | 0 | 0 | 6 | 0 | 0 |",
    ]
    assert (again.startswith("before\n"), again.endswith("after\n")) == (True, True)


def test_the_documentations_page_has_the_table_and_a_page_without_one_is_rejected() -> None:
    assert with_rows(PAGE.read_text(), []) == PAGE.read_text()
    with pytest.raises(ValueError, match="no table"):
        with_rows("nothing\n", [OF_ALL])


def test_unavailable_release_is_left_out_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compared(directory: Path, only: object, *, on_scenario: object, like: str) -> Report:
        if like == "3.8.1":
            raise KafkaMissing("offline")
        return Report(like)

    monkeypatch.setattr(releases, "differential", compared)
    missing: list[tuple[str, str]] = []
    found = differential_of_releases(
        tmp_path, ("3.9.2", "3.8.1", "3.7.2"), (), on_scenario=lambda *_: None, on_missing=lambda *arguments: missing.append(arguments)
    )
    assert [report.kafka_version for report in found] == ["3.9.2", "3.7.2"]
    assert missing == [("3.8.1", "offline")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3.7.2.json", "3.9.2.json"]

from __future__ import annotations

import re
from pathlib import Path

from client_compat.differential.known import KNOWN_OF_ZOOKEEPER, KnownDifference
from client_compat.differential.probe import Seen
from client_compat.differential.run import compare

ROOT = Path(__file__).resolve().parents[4]


def seen(value: object, label: str = "asked") -> Seen:
    return Seen(label, "FETCH", 12, {"error_code": value})


def test_difference_is_reported_with_scenario_api_version_and_path() -> None:
    (found,) = compare("s", [seen(0)], [seen(1)], known=())
    assert (found.scenario, found.label, found.api, found.version, found.path, found.kafka, found.ours) == (
        "s", "asked", "FETCH", 12, "error_code", 0, 1,
    )  # fmt: skip # one row of values under one row of names
    assert not found.known


def test_known_difference_explains_only_what_its_row_matches() -> None:
    rows = [KnownDifference("meant", "FETCH", "error_code", label="asked", kafka="0")]
    assert compare("s", [seen(0)], [seen(1)], known=rows)[0].known == "meant"
    for theirs, mine in ((seen(2), seen(1)), (seen(0, "other"), seen(1, "other"))):
        assert compare("s", [theirs], [mine], known=rows)[0].known == ""


def test_scenario_with_other_steps_is_a_difference() -> None:
    assert [found.path for found in compare("s", [seen(0), seen(0)], [seen(0)], known=())] == ["(number of answers)"]
    assert compare("s", [seen(0, "a")], [seen(0, "b")], known=())[0].path == "(the scenario went another way)"


def test_every_known_difference_has_a_row_in_the_deviations_page() -> None:
    rows = (ROOT / "docs" / "deviations.md").read_text()
    reasons = {row.why for row in KNOWN_OF_ZOOKEEPER} - {"the reference node's own settings"}
    assert [why for why in reasons if not re.search(rf"^\| {re.escape(why)}", rows, re.MULTILINE)] == []

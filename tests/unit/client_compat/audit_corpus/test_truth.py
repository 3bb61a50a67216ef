from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.audit_corpus.truth import own_faults
from ottla.spark_jobs.corpus import CASES

LINE = (
    "4711 [pool-1] INFO kafka.coordinator.transaction.TransactionMarkerChannelManager - [Transaction Marker Channel Manager 1]: "
    "Couldn't find leader endpoint for partitions Set({place}, other-0) while trying to send transaction markers for survivor, these "
    "partitions are likely deleted already and hence can be skipped\n"
)
MISSING, WHOLE = "payments-1", "payments-0"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log with the decision of a transaction over two partitions, of which only one has the marker."""
    CASES["lost_with_its_marker"].write(tmp_path / "data")
    return tmp_path / "data"


def test_missing_marker_is_an_expected_finding_if_the_broker_logged_that_it_gave_up(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "kafka.log"
    output.write_text("1 [main] WARN something else\n" + LINE.format(place=MISSING))
    assert own_faults(log, output) == [("torn-transaction", "warning", "marker missing", f"{MISSING}@?")]


def test_marker_that_was_written_later_is_no_expected_finding(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "kafka.log"
    output.write_text(LINE.format(place=WHOLE))
    assert own_faults(log, output) == []


def test_missing_marker_without_a_log_line_is_not_excused(log: Path, tmp_path: Path) -> None:
    assert own_faults(log, tmp_path / "missing.log") == []

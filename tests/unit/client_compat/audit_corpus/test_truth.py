from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.audit_corpus.truth import own_faults
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import CASES
from ottla.spark_jobs.corpus.score import findings
from ottla.spark_jobs.corpus.transactions import logs

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


def test_opposite_outcome_of_a_later_transaction_is_an_expected_finding(tmp_path: Path) -> None:
    first, second, states = logs(tmp_path / "data")
    first.data(1, 0, 0, 1)
    second.data(1, 0, 0, 1)
    states.state("t", 1, 1, "PrepareCommit", 1, 0, 1)
    first.marker(1, 1, 1)
    states.state("t", 1, 1, "CompleteCommit", 1)
    second.data(1, 1, 0, 2)
    states.state("t", 1, 2, "PrepareAbort", 2, 1)
    second.marker(1, 2, 2, committed=False)
    states.state("t", 1, 2, "CompleteAbort", 2)
    output = tmp_path / "kafka.log"
    output.write_text(LINE.format(place=MISSING))
    expected = own_faults(tmp_path / "data", output)
    assert len(expected) == 2
    assert findings(audit([tmp_path / "data"], engine="duckdb").directories) == expected[::-1]


def test_marker_that_was_written_later_is_no_expected_finding(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "kafka.log"
    output.write_text(LINE.format(place=WHOLE))
    assert own_faults(log, output) == []


def test_missing_marker_without_a_log_line_is_not_excused(log: Path, tmp_path: Path) -> None:
    assert own_faults(log, tmp_path / "missing.log") == []

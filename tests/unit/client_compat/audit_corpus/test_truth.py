"""What a broker's own log tells of markers that it did not write."""

from __future__ import annotations

from pathlib import Path

from client_compat.audit_corpus.truth import own_faults

LINE = (
    "4711 [pool-1] INFO kafka.coordinator.transaction.TransactionMarkerChannelManager - [Transaction Marker Channel Manager 1]: "
    "Couldn't find leader endpoint for partitions Set(rows-1, rows-0) while trying to send transaction markers for survivor, these "
    "partitions are likely deleted already and hence can be skipped\n"
)


def test_each_partition_whose_marker_was_given_up_is_a_finding_to_come(tmp_path: Path) -> None:
    log = tmp_path / "data-kafka.log"
    log.write_text("1 [main] WARN something else\n" + LINE)
    kind = ("torn-transaction", "warning", "marker missing")
    assert own_faults(log) == [(*kind, "rows-1@?"), (*kind, "rows-0@?")]


def test_a_broker_that_says_nothing_has_no_faults(tmp_path: Path) -> None:
    assert own_faults(tmp_path / "missing.log") == []

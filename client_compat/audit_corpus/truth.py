"""Real faults in logs that Apache Kafka wrote, according to Kafka's own log messages. The audit is right to report them.

If Kafka 4.3.1's transaction coordinator does not know a partition's leader, the coordinator treats the partition as deleted and omits the
transaction's marker there (`TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue`). After a kill, the coordinator may load its
transactions before it knows the leaders. Usually it retries to end such a transaction, but in two of six runs of the workload `kills` it
recorded the transaction as complete. A committed transaction then lacks a marker, and its records get the outcome of the producer's next
transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.spark_jobs.corpus.case import Expected
from ottla.spark_jobs.tables import read

GIVEN_UP = re.compile(r"Couldn't find leader endpoint for partitions \w*\(([^)]*)\) while trying to send transaction markers")


def own_faults(data_dir: Path, broker_log: Path) -> list[Expected]:
    """Return the findings that the audit must report because Kafka's transaction coordinator omitted a marker: one for each partition in
    which a committed or aborted transaction lacks its marker, and one more if the marker of a later transaction gave its records the
    opposite outcome.

    Only partitions count for which `broker_log` says that a marker was omitted. Returns an empty list if there is no broker log.
    """
    text = broker_log.read_text(errors="replace") if broker_log.exists() else ""
    given_up = {place for match in GIVEN_UP.finditer(text) for place in match[1].split(", ")}
    if not given_up:
        return []
    markers = list(_rows("markers", data_dir))
    missing = [
        (place, began)
        for began, ended in _decisions(data_dir)
        for place in began["partitions"]
        if place in given_up
        and not any(
            f"{marker['topic']}-{marker['partition']}" == place
            and marker["producer_id"] == began["producer_id"]
            and began["timestamp"] <= marker["timestamp"] <= ended["timestamp"]
            for marker in markers
        )
    ]
    found: list[Expected] = [("torn-transaction", "warning", "marker missing", f"{place}@?") for place, _ in missing]
    for place, began in missing:
        producer = (place, began["producer_id"])
        rows = [row for row in _rows("batches", data_dir) if (f"{row['topic']}-{row['partition']}", row["producer_id"]) == producer]
        data = [row["base_offset"] for row in rows if not row["control"] and row["producer_epoch"] == began["producer_epoch"] - 1]
        outcome = next((row["marker"] for row in rows if data and row["marker"] and row["base_offset"] > data[0]), None)
        if began["transaction_version"] >= 2 and outcome is not None and outcome not in began["state"].lower():
            found.append(("torn-transaction", "violation", "ended by a later transaction, with another outcome", f"{place}@{data[0]}"))
    return found


def _decisions(data_dir: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each completed transaction as two of the coordinator's records: the one with its outcome decided (PrepareCommit or
    PrepareAbort), and the one with its completion."""
    last: dict[str, dict[str, Any]] = {}
    for row in _rows("transactions", data_dir):
        before = last.get(row["transactional_id"])
        if before is not None and str(before["state"]).startswith("Prepare") and str(row["state"]).startswith("Complete"):
            yield before, row
        last[row["transactional_id"]] = row


def _rows(level: str, data_dir: Path) -> Iterator[dict[str, Any]]:
    for batch in read(level, [data_dir]):
        yield from batch.to_pylist()

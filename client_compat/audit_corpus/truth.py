"""What is wrong with a log that Apache Kafka wrote, by Kafka's own word, so that the audit is right to say it, too.

Kafka 4.3.1's coordinator takes a partition whose leader it does not know for a deleted one, and goes on without a marker in it
(`TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue`). After a kill it may read its transactions before it has learnt who leads
what. Mostly it comes back to such a transaction; at times it completes it (seen in two of six runs of the kills, not in each), and then a
transaction that is called committed has no marker, and its records share the fate of the producer's next one.
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
    """The findings that must come of a broker's directory: decisions without a marker, in partitions of which the broker says that it
    gave a marker up. None where there is no such file."""
    text = broker_log.read_text(errors="replace") if broker_log.exists() else ""
    given_up = {place for match in GIVEN_UP.finditer(text) for place in match[1].split(", ")}
    if not given_up:
        return []
    markers = list(_rows("markers", data_dir))
    found = [
        place
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
    return [("torn-transaction", "warning", "marker missing", f"{place}@?") for place in found]


def _decisions(data_dir: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each completed transaction: what the coordinator wrote when it decided, and when it was done."""
    last: dict[str, dict[str, Any]] = {}
    for row in _rows("transactions", data_dir):
        before = last.get(row["transactional_id"])
        if before is not None and str(before["state"]).startswith("Prepare") and str(row["state"]).startswith("Complete"):
            yield before, row
        last[row["transactional_id"]] = row


def _rows(level: str, data_dir: Path) -> Iterator[dict[str, Any]]:
    for batch in read(level, [data_dir]):
        yield from batch.to_pylist()

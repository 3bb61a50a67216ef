"""What Apache Kafka says about itself that is wrong with the log that it wrote, so that the audit is right to say it, too.

Kafka 4.3.1's coordinator takes a partition whose leader it does not know for a deleted one, and completes the transaction without a marker
in it (`TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue`). After a kill it may read its transactions before it has learnt who
leads what: then a transaction that it calls committed has no marker, and its records share the fate of the producer's next one.
"""

from __future__ import annotations

import re
from pathlib import Path

from spark_jobs.corpus.case import Expected

GIVEN_UP = re.compile(r"Couldn't find leader endpoint for partitions \w*\(([^)]*)\) while trying to send transaction markers")


def own_faults(broker_log: Path) -> list[Expected]:
    """The findings that must come of what a broker has written into its own log; none where there is no such file."""
    text = broker_log.read_text(errors="replace") if broker_log.exists() else ""
    places = [place for match in GIVEN_UP.finditer(text) for place in match[1].split(", ")]
    return [("torn-transaction", "warning", "marker missing", f"{place}@?") for place in places]

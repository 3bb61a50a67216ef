"""Judges exactly-once delivery through a gateway: compares what clients sent and received with the logs of the cluster behind it, which are
read as a Kafka client reads them.

Rules:
- Records are read up to the high watermark, after it has passed every acknowledged record: with acks=1, a record is acknowledged before the
  high watermark passes it.
- The audit's findings are reported for the judged topics only, because `__transaction_state` also has other clients' transactions.
- A topic that no recorded client used is judged only if the caller names it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.broker.testing.anomalies import Identity, Observations, by_value, judge
from ottla.broker.testing.contents import Stored, TopicPartition, stored_in
from ottla.broker.testing.history import History, Send
from ottla.broker.testing.verdict import Examined, NotExactlyOnce, assertion_arguments, audit_findings
from ottla.protocol.error_codes import ErrorCode
from ottla.spark_jobs.wire.address import CONFIG_FILE, Address, address
from ottla.spark_jobs.wire.cluster import EARLIEST, LATEST, Cluster, WireError

_READ_BYTES: Final = 4 << 20
_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class WireSource:
    """A cluster whose logs are to be read: its bootstrap servers, and a file with client security settings (client.properties)."""

    bootstrap: str
    command_config: Path | None = None

    def address(self) -> Address:
        """Return the cluster's address and the security settings for a connection to it. Raises ValueError for invalid settings, OSError if
        a file cannot be read."""
        return address(self.bootstrap, {} if self.command_config is None else {CONFIG_FILE: str(self.command_config)})

    @property
    def url(self) -> str:
        """The cluster in the form in which `ottla audit` takes it: `kafka://host:port`, with several servers separated by commas."""
        return f"kafka://{self.bootstrap}"


def assert_exactly_once(
    source: WireSource,
    history: History,
    topics: str | Iterable[str] | None = None,
    *,
    expected: Iterable[Hashable] | None = None,
    by: str | Identity = "value",
    audit: bool = True,
) -> None:
    """Implements `InProcessGateway.assert_exactly_once`: compare what clients sent and received through the gateway with the cluster's
    logs, and raise NotExactlyOnce if anything is wrong."""
    __tracebackhide__ = True  # pytest then shows only the caller's line and the explanation
    if topics is None and expected is None and not history.sends and not history.reads:
        raise RuntimeError("no client wrote or read records through the gateway: does it use the gateway's bootstrap servers?")
    arguments = assertion_arguments(topics, expected, by)
    found = examine(source, history, arguments.topics, expected=arguments.expected, by=arguments.by, audit=audit)
    if found.anomalies or found.findings:
        raise NotExactlyOnce(found.anomalies, found.findings)


def examine(
    source: WireSource,
    history: History,
    topics: Iterable[str] | None = None,
    *,
    expected: Iterable[Hashable] | None = None,
    by: Identity = by_value,
    audit: bool = True,
) -> Examined:
    """Compare what clients sent and received through a gateway with the cluster's logs of `topics` (None: those that were written or read).
    Return the anomalies, the findings of the audit, and all stored records.

    `by` maps a record to its identity. `expected` are the identities of which each must be readable exactly once; None: no check. With
    `audit`, also audit the logs. Raises RuntimeError for an incomplete history, KeyError for an unknown topic, and WireError (an OSError)
    if the cluster cannot be read.
    """
    if not history.complete:
        raise RuntimeError("the history is limited to 256 MiB of records and incomplete: judge smaller tests, or audit the log alone")
    sends, reads = list(history.sends), list(history.reads)  # before the logs: records sent meanwhile are then only in the logs
    used = {each.topic for each in sends} | {each.topic for each in reads}
    names = {name for name in used if not name.startswith("__")} if topics is None else set(topics)
    seen = Observations(
        sorted((send for send in sends if send.topic in names), key=lambda send: send.number),
        [read for read in reads if read.topic in names],
        [],
        by,
    )
    if names:
        with Cluster(source.address()) as cluster:
            _read(cluster, names, used, seen)
    judged = {topic for topic, _ in seen.begins}
    findings = audit_findings([source.url], judged, alone=judged, command_config=source.command_config) if audit and judged else []
    return Examined(judge(seen, expected), findings, list(seen.stored))


def _read(cluster: Cluster, names: Collection[str], used: Collection[str], seen: Observations) -> None:
    """Read the records, log start offsets and cleanup policies of the topics `names` into `seen`. A topic in `used` (one that clients have
    used) may have been deleted: then it has no records.

    Raises KeyError for any other topic that cannot be found, WireError for a partition that cannot be read.
    """
    found = cluster.find(names)
    there = {topic for topic, _ in found.partitions}
    for topic in sorted(set(names) - there):
        if topic not in used or found.refused.get(topic) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name:
            raise KeyError(f"the topic {topic!r} cannot be read: {found.refused.get(topic, 'there is no such topic')}")
    begins, refused = cluster.offsets(found.partitions, EARLIEST)
    ends, refused_ends = _ends(cluster, found.partitions, seen.sends)
    for (topic, partition), reason in (refused | refused_ends).items():
        raise WireError(f"{topic}-{partition} cannot be read: {reason}")
    seen.begins = begins
    seen.compacted = frozenset(topic for topic, policy in cluster.cleanup_policies(there).items() if "compact" in policy)
    seen.stored = [stored for tp, end in sorted(ends.items()) for stored in _contents(cluster, tp, begins[tp], end)]


def _contents(cluster: Cluster, tp: TopicPartition, begin: int, end: int) -> list[Stored]:
    def read(offset: int) -> bytes:
        data = cluster.fetch(tp, offset, _READ_BYTES)
        if data.error_code:
            raise WireError(f"{tp[0]}-{tp[1]}: cannot be read at offset {offset}: {ErrorCode.of(data.error_code).name}")
        return bytes(data.records or b"")

    return stored_in(tp, begin, end, read)


def _ends(
    cluster: Cluster, partitions: Collection[TopicPartition], sends: Iterable[Send]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
    """Return the high watermark of each partition, and the error of each partition that has none. Before that, wait until the high
    watermarks have passed all acknowledged records, at most `_PATIENCE_S` seconds."""
    acked: dict[TopicPartition, int] = {}
    for send in sends:
        if send.acked:
            tp = send.topic, send.partition
            acked[tp] = max(acked.get(tp, 0), send.offset + len(send.records))
    until = time.monotonic() + _PATIENCE_S
    while True:
        ends, refused = cluster.offsets(partitions, LATEST)
        if time.monotonic() > until or all(ends.get(tp, 0) >= end for tp, end in acked.items() if tp in partitions):
            return ends, refused
        time.sleep(_PAUSE_S)

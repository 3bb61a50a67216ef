"""Judges exactly-once delivery in a whole in-process cluster: compares what clients sent to and received from all brokers with the leaders'
logs, and the replicas of a partition with each other. Replicas on dead or paused brokers are not judged until their broker runs again."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from functools import partial

from ottla.broker.app import Broker
from ottla.broker.testing.anomalies import Identity, Observations, by_value, judge
from ottla.broker.testing.cluster_nodes import ClusterNodes
from ottla.broker.testing.contents import TopicPartition, contents_of
from ottla.broker.testing.verdict import Examined, NotExactlyOnce, assertion_arguments, audit_findings


def assert_exactly_once(
    cluster: ClusterNodes,
    topics: str | Iterable[str] | None = None,
    *,
    expected: Iterable[Hashable] | None = None,
    by: str | Identity = "value",
    audit: bool = True,
) -> None:
    """Implements `InProcessCluster.assert_exactly_once`: compare what clients sent and received with the logs, and raise NotExactlyOnce if
    anything is wrong."""
    __tracebackhide__ = True  # pytest then shows only the caller's line and the explanation
    arguments = assertion_arguments(topics, expected, by)
    found = examine(cluster, arguments.topics, expected=arguments.expected, by=arguments.by, audit=audit)
    if found.anomalies or found.findings:
        raise NotExactlyOnce(found.anomalies, found.findings)


def examine(
    cluster: ClusterNodes,
    topics: Iterable[str] | None = None,
    *,
    expected: Iterable[Hashable] | None = None,
    by: Identity = by_value,
    audit: bool = True,
) -> Examined:
    """Compare what clients sent to and received from all brokers with the leaders' logs of `topics` (None: all except internal ones).
    Return the anomalies, the findings of the audit, and all stored records.

    `by` maps a record to its identity. `expected` are the identities of which each must be readable exactly once; None: no check. With
    `audit`, also audit every replica. Raises RuntimeError for an incomplete history, TimeoutError for a partition without a leader.
    """
    if not all(broker.history.complete for broker in cluster.brokers.values()):
        raise RuntimeError("the history is limited to 256 MiB of records and incomplete: judge smaller tests, or audit the logs alone")
    names = cluster.topic_names if topics is None else sorted(set(topics))
    seen = _history(cluster, names, by)  # before the logs: records sent meanwhile are then only in the logs, which is no anomaly
    _read_logs(cluster, names, seen)
    return Examined(judge(seen, expected), _audit(cluster, names) if audit and names else [], list(seen.stored))


def _history(cluster: ClusterNodes, names: Collection[str], by: Identity) -> Observations:
    """Merge the recorded histories of all brokers into one, in order of time, with only the topics `names`. `by` maps a record to
    the value by which the verdict recognizes it in requests, responses and logs."""
    histories = [broker.history for broker in cluster.brokers.values()]
    sends = [send for history in histories for send in list(history.sends) if send.topic in names]
    reads = [read for history in histories for read in list(history.reads) if read.topic in names]
    return Observations(sorted(sends, key=lambda send: (send.at_ms, send.number)), sorted(reads, key=lambda read: read.at_ms), [], by)


def _read_logs(cluster: ClusterNodes, names: Collection[str], seen: Observations) -> None:
    led: dict[int, set[TopicPartition]] = {}
    for topic in names:
        for index in cluster.partitions_of(topic):
            led.setdefault(cluster.wait_until_led(topic, index), set()).add((topic, index))
    parts = [cluster.brokers[number].call(partial(_of_leader, tps, seen.identity)) for number, tps in sorted(led.items())]
    seen.stored = [stored for part in parts for stored in part.stored]
    seen.begins = {tp: begin for part in parts for tp, begin in part.begins.items()}
    seen.compacted = {topic for part in parts for topic in part.compacted}


def _of_leader(tps: Collection[TopicPartition], by: Identity, broker: Broker) -> Observations:
    partitions = [each for each in broker.services.partitions if (each.topic, each.index) in tps]
    return Observations(
        [],
        [],
        [stored for partition in partitions for stored in contents_of(partition)],
        by,
        {(each.topic, each.index): each.log.log_start_offset for each in partitions},
        {each.topic for each in partitions if each.log.config.compacts},
    )


def _audit(cluster: ClusterNodes, names: Collection[str]) -> list[str]:
    brokers = [cluster.brokers[number] for number in cluster.up]
    for broker in brokers:
        broker.call(_write_high_watermarks)
    return audit_findings([broker.data_dir for broker in brokers], names, replicas=True)


def _write_high_watermarks(broker: Broker) -> None:
    """Write the broker's checkpoint file of high watermarks, because the audit compares replicas only up to the high watermark."""
    broker.log_dir.high_watermark_checkpoint()()

"""The metrics of `/metrics`, under the names that dashboards for Kafka's jmx_exporter use; group lag has kafka_exporter's names.

Rules that hold inside:
- A scrape reads everything at that moment: from logs, metadata and groups, and from counters that are maintained anyway.
- Counters start with the process, as in Kafka. A topic's series ends when the topic is deleted; the broker-wide series continues, so no
  counter ever decreases.
- A scrape blocks the loop only for a few partitions at a time; the text is generated on a thread.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import cache
from math import isnan, nan
from typing import Any, Final, TypeVar, cast

from ottla.broker.api.context import Sent
from ottla.broker.app import Broker
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.modern import ModernState
from ottla.broker.groups.share_group import ShareGroup
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.share.acknowledgement import AcknowledgeType
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_RUNNING: Final = 3
_AT_ONCE: Final = 200
"""The number of partitions, groups or offsets that are read before the event loop can run other callbacks. Reading that many takes a few
milliseconds."""
T = TypeVar("T")
_TOPIC_METRICS: Final = "kafka_server_brokertopicmetrics_"
_SHARE_GROUPS: Final = "kafka_server_group_coordinator_metrics_share_group_count"


class _Samples:
    """The metrics that one scrape collects: by metric name, the kind (gauge or counter) and the series, with names, labels and values."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, list[tuple[str, dict[str, str], float]]]] = {}

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self.gauge_of(name, value, labels)

    def gauge_of(self, name: str, value: float, labels: dict[str, str]) -> None:
        """Add a value of the gauge `name`. `labels` is not copied, so one dictionary can serve many series."""
        self._of(name, "gauge").append((name, labels, value))

    def counter(self, name: str, value: float, **labels: str) -> None:
        """Add a value of the counter `name`, which is given without the suffix `_total`."""
        self._of(name, "counter").append((f"{name}_total", labels, value))

    def _of(self, name: str, kind: str) -> list[tuple[str, dict[str, str], float]]:
        return self.found.setdefault(name, (kind, []))[1]


class Metrics:
    """Collects the metrics of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def text(self) -> bytes:
        """Return all metrics in the format of `CONTENT_TYPE`. Raises ImportError if prometheus-client is not installed."""
        return await asyncio.to_thread(_written, await self._samples())

    async def _samples(self) -> _Samples:
        samples = _Samples()
        partitions = list(self._broker.services.partitions)
        self._of_requests(samples)
        self._of_topics(samples)
        await self._of_replicas(samples, partitions)
        self._of_the_cluster(samples)
        await self._of_groups(samples)
        await self._of_share_groups(samples)
        self._of_quotas(samples)
        self._of_telemetry(samples)
        return samples

    def _of_requests(self, samples: _Samples) -> None:
        broker = self._broker
        for (key, version), count in sorted(broker.requests.items()):
            samples.counter("kafka_network_requestmetrics_requests", count, request=ApiKey(key).camel_case, version=str(version))
        for listener, count in broker.connections_by_listener.items():
            samples.gauge("kafka_server_socket_server_metrics_connection_count", count, listener=listener, networkProcessor="0")
        samples.counter("kafka_server_socket_server_metrics_connection_creation", broker.connections_made)
        samples.gauge("ottla_requests_waiting", broker.waiting_requests)
        parked = broker.services.fetch_purgatory.waiting
        samples.gauge("kafka_server_delayedoperationpurgatory_numdelayedoperations", parked, delayedOperation="Fetch")
        waiting = broker.services.share.fetches.waiting
        samples.gauge("kafka_server_delayedoperationpurgatory_numdelayedoperations", waiting, delayedOperation="ShareFetch")
        samples.gauge("kafka_server_kafkaserver_brokerstate", _RUNNING)

    def _of_topics(self, samples: _Samples) -> None:
        traffic, (appended, total) = self._broker.services.traffic, self._broker.services.partitions.appended()
        for name, of_all, by_topic in (
            ("messagesin", total.messages, {topic: each.messages for topic, each in appended.items()}),
            ("bytesin", total.size_bytes, {topic: each.size_bytes for topic, each in appended.items()}),
            ("bytesout", traffic.to_consumers.total, self._by_name(traffic.to_consumers)),
            ("replicationbytesout", traffic.to_followers.total, self._by_name(traffic.to_followers)),
        ):
            samples.counter(_TOPIC_METRICS + name, of_all)
            for topic, count in by_topic.items():
                samples.counter(_TOPIC_METRICS + name, count, topic=topic)
        requests = Counter[int]()
        for (key, _), count in self._broker.requests.items():
            requests[key] += count
        samples.counter(f"{_TOPIC_METRICS}totalproducerequests", requests[ApiKey.PRODUCE])
        samples.counter(f"{_TOPIC_METRICS}totalfetchrequests", requests[ApiKey.FETCH])
        samples.counter(f"{_TOPIC_METRICS}totalsharefetchrequests", requests[ApiKey.SHARE_FETCH])
        samples.counter(f"{_TOPIC_METRICS}totalshareacknowledgementrequests", requests[ApiKey.SHARE_ACKNOWLEDGE])

    def _by_name(self, sent: Sent) -> Counter[str]:
        """Return by topic name the counts in `sent`, which are by topic name or topic id. A topic can have both, because newer versions of
        Produce and Fetch name topics by id; these counts are added up. Deleted topics are left out."""
        image, named = self._broker.services.topics.image, Counter[str]()
        for key, count in sent.by_topic.items():
            topic = image.topic(key) if isinstance(key, str) else image.topics.get(key)
            if topic is not None:
                named[topic.name] += count
        return named

    async def _of_replicas(self, samples: _Samples, partitions: list[Partition]) -> None:
        services = self._broker.services
        image, leaders, behind, too_few = services.topics.image, 0, 0, 0
        async for partition in _yielding(partitions):
            if partition.removed:
                continue
            log, labels = partition.log, {"topic": partition.topic, "partition": str(partition.index)}
            samples.gauge_of("kafka_log_log_size", log.size_bytes, labels)
            samples.gauge_of("kafka_log_log_logstartoffset", log.log_start_offset, labels)
            samples.gauge_of("kafka_log_log_logendoffset", log.log_end_offset, labels)
            samples.gauge_of("kafka_log_log_numlogsegments", len(log.segments), labels)
            topic = image.topic(partition.topic)
            known = None if topic is None else topic.partitions.get(partition.index)
            if known is None or not partition.leads:
                continue
            leaders += 1
            # Replicas being added do not count as under-replicated (Kafka's OngoingReassignmentState).
            replicas = len(known.replicas) - len(known.adding_replicas)
            under, below = len(known.isr) < replicas, partition.replica.leadership.below_min_in_sync
            behind, too_few = behind + under, too_few + below
            samples.gauge_of("kafka_cluster_partition_replicascount", replicas, labels)
            samples.gauge_of("kafka_cluster_partition_insyncreplicascount", len(known.isr), labels)
            samples.gauge_of("kafka_cluster_partition_underreplicated", under, labels)
            samples.gauge_of("kafka_cluster_partition_underminisr", below, labels)
        offline = sum(len(found.offline) for name in services.partitions.topic_names() if (found := services.partitions.by_name(name)))
        for name, value in (
            ("leadercount", leaders),
            ("partitioncount", len(partitions)),
            ("underreplicatedpartitions", behind),
            ("underminisrpartitioncount", too_few),
            ("offlinereplicacount", offline),
        ):
            samples.gauge(f"kafka_server_replicamanager_{name}", value)
        samples.gauge("kafka_log_logmanager_offlinelogdirectorycount", 0)

    def _of_the_cluster(self, samples: _Samples) -> None:
        broker = self._broker
        samples.gauge("kafka_controller_kafkacontroller_activecontrollercount", broker.is_controller)
        if broker.is_controller:
            for name, value in _controller_gauges(broker.services.topics.image):
                samples.gauge(f"kafka_controller_kafkacontroller_{name}", value)
        if broker.standalone is not None:
            log = broker.standalone.controller.voter.raft_log
            samples.gauge("kafka_server_raftmetrics_current_leader", broker.settings.node_id)
            samples.gauge("kafka_server_raftmetrics_current_epoch", log.last_epoch)
            samples.gauge("kafka_server_raftmetrics_high_watermark", log.high_watermark)
            samples.gauge("kafka_server_raftmetrics_log_end_offset", log.end_offset)

    async def _of_groups(self, samples: _Samples) -> None:
        """Add the metrics of groups and of their lag, which is known for partitions with a replica on this broker."""
        services, groups, offsets = self._broker.services, 0, 0
        for machine in services.groups.machines():
            groups += len(machine.groups)
            async for name, group in _yielding(list(machine.groups.items())):
                samples.gauge("kafka_consumergroup_members", len(group.members), consumergroup=name)
            sums: dict[tuple[str, str], float] = {}
            async for name, topic, index, committed in _yielding(list(machine.offsets.committed)):
                offsets += 1
                labels = {"consumergroup": name, "topic": topic, "partition": str(index)}
                samples.gauge_of("kafka_consumergroup_current_offset", committed.value.offset, labels)
                try:
                    end = services.partitions.get(topic, index).log.high_watermark
                except Rejected:
                    sums[name, topic] = nan  # without this partition the sum would be wrong, so it is left out
                    continue
                lag = max(0, end - committed.value.offset)
                samples.gauge_of("kafka_consumergroup_lag", lag, labels)
                sums[name, topic] = sums.get((name, topic), 0) + lag
            for (name, topic), lag_sum in sums.items():
                if not isnan(lag_sum):
                    samples.gauge("kafka_consumergroup_lag_sum", lag_sum, consumergroup=name, topic=topic)
        samples.gauge("kafka_coordinator_group_groupmetadatamanager_numgroups", groups)
        samples.gauge("kafka_coordinator_group_groupmetadatamanager_numoffsets", offsets)

    async def _of_share_groups(self, samples: _Samples) -> None:
        """Add the metrics of the share groups that this broker coordinates, of the share partitions that it leads, of its share sessions,
        and of the share state that it stores."""
        services, share = self._broker.services, self._broker.services.share
        states = Counter(
            group.state for machine in services.groups.machines() for group in machine.groups.values() if isinstance(group, ShareGroup)
        )
        samples.gauge(_SHARE_GROUPS, states.total(), protocol="share")
        for state in (ModernState.EMPTY, ModernState.STABLE, ModernState.DEAD):
            samples.gauge(_SHARE_GROUPS, states[state], state=state)
        samples.gauge("kafka_server_sharesessioncache_sharesessionscount", len(share.partitions.sessions))
        samples.gauge("kafka_server_sharesessioncache_sharepartitionscount", share.partitions.sessions.partition_count)
        for kind in AcknowledgeType:
            if kind is not AcknowledgeType.GAP:
                count = share.partitions.acknowledged[kind]
                samples.counter("kafka_server_sharegroupmetrics_recordacknowledgements", count, ackType=kind.name.capitalize())
        queues = share.dead_letters
        for group, requests in queues.requests.items():
            samples.counter("kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests", requests, group=group)
            samples.counter("kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests", queues.failed[group], group=group)
            samples.counter("kafka_server_sharegroupmetrics_deadletterqueuerecordcount", queues.records[group], group=group)
        samples.counter("kafka_server_share_coordinator_metrics_write", share.state.writes)
        async for shared in _yielding(share.partitions.in_use()):
            labels = {"group": shared.key.group_id, "topic": shared.partition.topic, "partition": str(shared.key.partition)}
            samples.gauge_of("kafka_server_sharepartitionmetrics_inflightmessagecount", shared.state.in_flight_count, labels)
            samples.gauge_of("kafka_server_sharepartitionmetrics_inflightbatchcount", len(shared.state.in_flight.batches), labels)
            samples.counter("kafka_server_sharepartitionmetrics_acquisitionlocktimeout", shared.lock_timeouts, **labels)

    def _of_quotas(self, samples: _Samples) -> None:
        quotas = self._broker.services.quotas
        if quotas is None:
            return
        for each in (quotas.produce, quotas.fetch, quotas.request, quotas.mutation):
            samples.counter("ottla_quota_throttled", each.throttled, quota=each.key)
            samples.counter("ottla_quota_throttle_time_seconds", each.waited_ms / 1000, quota=each.key)

    def _of_telemetry(self, samples: _Samples) -> None:
        """Add the metrics about client metrics pushes (KIP-714). Kafka labels some by client instance; here they are totals, to bound the
        number of series."""
        telemetry = self._broker.services.telemetry
        if telemetry is None:
            return
        refused = telemetry.counts.refused
        samples.gauge("kafka_server_client_metrics_instance_count", len(telemetry))
        for name, count in (
            ("unknown_subscription_request", refused.get(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, 0)),
            ("throttle", refused.get(ErrorCode.THROTTLING_QUOTA_EXCEEDED, 0)),
            ("plugin_export", telemetry.counts.pushed),
            ("plugin_error", refused.get(ErrorCode.INVALID_RECORD, 0)),
        ):
            samples.counter(f"kafka_server_client_metrics_{name}", count)
        samples.counter("ottla_telemetry_pushed_bytes", telemetry.counts.pushed_bytes)


async def _yielding(found: Iterable[T]) -> AsyncIterator[T]:
    """Yield each element of `found`, and let other callbacks of the event loop run after every `_AT_ONCE` elements."""
    for number, each in enumerate(found, 1):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        yield each


def _controller_gauges(image: MetadataImage) -> Iterator[tuple[str, int]]:
    partitions = [partition for topic in image.topics.values() for partition in topic.partitions.values()]
    fenced = sum(broker.fenced for broker in image.brokers.values())
    yield "activebrokercount", len(image.brokers) - fenced if image.brokers else 1
    yield "fencedbrokercount", fenced
    yield "globaltopiccount", len(image.topics)
    yield "globalpartitioncount", len(partitions)
    yield "offlinepartitionscount", sum(partition.leader == NO_LEADER for partition in partitions)
    yield "preferredreplicaimbalancecount", sum(partition.leader != partition.replicas[0] for partition in partitions)


def _written(samples: _Samples) -> bytes:
    from prometheus_client import generate_latest  # noqa: PLC0415 # an extra, imported with the first scrape
    from prometheus_client.core import CollectorRegistry, Metric  # noqa: PLC0415 # an extra, imported with the first scrape

    class Found:
        def collect(self) -> Iterator[Any]:
            for name, (kind, series) in samples.found.items():
                metric = Metric(name, "See docs/metrics.md", kind)
                for each in series:
                    metric.add_sample(*each)
                yield metric

    registry, found = CollectorRegistry(), cast(Any, Found())
    registry.register(found)
    return b"".join(map(generate_latest, (registry, _process_registry())))


@cache
def _process_registry() -> Any:
    """Return the registry of prometheus-client's metrics of a Python process."""
    from prometheus_client import (  # noqa: PLC0415 # an extra, imported with the first scrape
        CollectorRegistry,
        GCCollector,
        PlatformCollector,
        ProcessCollector,
    )

    registry = CollectorRegistry()
    for make in (ProcessCollector, PlatformCollector, GCCollector):
        make(registry=registry)
    return registry

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from ottla.broker.admin.metrics import Metrics
from ottla.broker.admin.server import admin_port
from ottla.broker.app import Broker
from ottla.broker.core.clock import MovableClock
from ottla.broker.groups.classic import ClassicConfig, ClassicGroup
from ottla.broker.groups.offsets import Committed
from ottla.broker.testing.cluster import InProcessCluster
from ottla.broker.verification.verifier_client import BY_GROUP, VerifierClient
from ottla.protocol.client import Client
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.offset_log import OffsetCommitValue
from tests.support.quota_calls import set_quota
from tests.support.running_broker import RunningBroker
from tests.support.share_calls import ACCEPT, REJECT, RELEASE, ShareMember, initialize
from tests.support.share_group_calls import beat, prepare
from tests.support.topic_calls import create, delete, produce
from tests.support.web import get_text

pytest.importorskip("prometheus_client", reason="an extra: pip install 'ottla[admin]'")

DASHBOARD = Path(__file__).parents[4] / "docs" / "grafana" / "ottla-dashboard.json"
_KINDS = ("Accept", "Reject", "Release", "Renew")
Labels: TypeAlias = frozenset[tuple[str, str]]


class Scraped:
    """One broker's metrics over HTTP."""

    def __init__(self, broker: RunningBroker, port: int) -> None:
        self.broker, self._port = broker, port

    def __call__(self) -> dict[tuple[str, Labels], float]:
        """Return the value of each metric by name and labels."""
        from prometheus_client.parser import text_string_to_metric_families

        text = get_text(self._port, "/metrics")
        found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in found}
        assert len(values) == len(found), "no series is there twice"
        return values


@pytest.fixture
def scrape() -> Iterator[Scraped]:
    moving = MovableClock()
    with RunningBroker(None, clock=moving) as running:
        serving = admin_port(running.broker, running.script, moving, 0, token="t", open_local=True)
        yield Scraped(running, running.call_async(serving.__aenter__()))
        running.call_async(serving.__aexit__(None, None, None))


@pytest.fixture
def client(scrape: Scraped) -> Iterator[Client]:
    with scrape.broker.client() as client:
        yield client


def of(**labels: str) -> Labels:
    return frozenset(labels.items())


def fetch(client: Client, topic: str, *, wait_ms: int = 0) -> bytes:
    topics = [FetchTopic(topic, partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])]
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)
    return bytes(client.call(request, 11).responses[0].partitions[0].records)


def test_records_and_bytes_in_and_out_are_counted_by_topic_and_in_total(scrape: Scraped, client: Client) -> None:
    create(client, "t")
    create(client, "u")
    for _ in range(3):
        produce(client, "t", b"a", b"b")
    produce(client, "u", b"c")
    data = fetch(client, "t")
    seen = scrape()
    name = "kafka_server_brokertopicmetrics_"
    assert seen[f"{name}messagesin_total", of(topic="t")] == 6
    assert seen[f"{name}messagesin_total", of(topic="u")] == 1
    assert seen[f"{name}messagesin_total", of()] == 7
    assert seen[f"{name}bytesin_total", of(topic="t")] == len(data) == seen[f"{name}bytesout_total", of(topic="t")]
    assert seen[f"{name}bytesout_total", of()] == len(data)
    assert seen[f"{name}totalproducerequests_total", of()] == 4
    assert seen["kafka_network_requestmetrics_requests_total", of(request="Produce", version="9")] == 4
    assert seen["kafka_network_requestmetrics_requests_total", of(request="Fetch", version="11")] == 1


def test_waiting_fetches_are_counted(scrape: Scraped, client: Client) -> None:
    create(client, "t")
    with scrape.broker.client() as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fetch, other, "t", wait_ms=60_000)
        scrape.broker.call_until(lambda broker: broker.waiting_requests == 1)
        seen = scrape()
        produce(client, "t", b"a")
        assert waiting.result(10)
    assert seen["kafka_server_delayedoperationpurgatory_numdelayedoperations", of(delayedOperation="Fetch")] == 1
    assert seen["ottla_requests_waiting", of()] == 1


def test_deleted_topics_metrics_disappear_but_stay_in_the_totals(scrape: Scraped, client: Client) -> None:
    """A counter that decreases is taken for a restarted process: Prometheus would count its remaining value as new events."""
    names = [f"kafka_server_brokertopicmetrics_{each}_total" for each in ("messagesin", "bytesin", "bytesout")]
    for topic in "t", "u":
        create(client, topic)
        produce(client, topic, b"a")
        fetch(client, topic)
    before = scrape()
    delete(client, "t")
    seen = scrape()
    assert not [key for key in seen if ("topic", "t") in key[1]]
    assert [seen[name, of()] for name in names] == [before[name, of()] for name in names]
    assert all(before[name, of()] == 2 * before[name, of(topic="u")] > 0 for name in names)


def test_partition_and_cluster_metrics_are_exported(scrape: Scraped, client: Client) -> None:
    create(client, "t", 3, {"min.insync.replicas": "2"})  # of one replica one is enough
    produce(client, "t", b"a", b"b", partition=1)
    seen = scrape()
    assert seen["kafka_server_replicamanager_partitioncount", of()] == seen["kafka_server_replicamanager_leadercount", of()] == 3
    assert seen["kafka_server_replicamanager_underreplicatedpartitions", of()] == 0
    assert seen["kafka_server_replicamanager_underminisrpartitioncount", of()] == 0
    assert seen["kafka_log_log_logendoffset", of(topic="t", partition="1")] == 2
    assert seen["kafka_log_log_size", of(topic="t", partition="1")] > 0
    assert seen["kafka_cluster_partition_insyncreplicascount", of(topic="t", partition="2")] == 1
    assert seen["kafka_controller_kafkacontroller_activecontrollercount", of()] == 1
    assert seen["kafka_controller_kafkacontroller_activebrokercount", of()] == 1
    assert seen["kafka_controller_kafkacontroller_globaltopiccount", of()] == 1
    assert seen["kafka_controller_kafkacontroller_globalpartitioncount", of()] == 3
    assert seen["kafka_server_raftmetrics_current_leader", of()] == 1
    assert seen["kafka_server_socket_server_metrics_connection_count", of(listener="PLAINTEXT", networkProcessor="0")] == 1
    assert seen["process_resident_memory_bytes", of()] > 0


def test_share_group_acknowledgements_locks_sessions_and_requests_are_counted(scrape: Scraped, client: Client) -> None:
    create(client, "t")
    initialize(client, "t", start_offset=0)
    member = ShareMember(client, "m")
    produce(client, "t", b"a", b"b", b"c")
    produce(client, "t", b"d")
    member.fetch()
    member.acknowledge((0, 1, [ACCEPT, REJECT]), (2, 2, [RELEASE]))
    scrape.broker.clock.advance(30)
    member.fetch()
    seen, place = scrape(), of(group="g", topic="t", partition="0")
    acknowledged = {kind: seen["kafka_server_sharegroupmetrics_recordacknowledgements_total", of(ackType=kind)] for kind in _KINDS}
    assert acknowledged == {"Accept": 1, "Reject": 1, "Release": 1, "Renew": 0}
    assert seen["kafka_server_sharepartitionmetrics_inflightmessagecount", place] == 2
    assert seen["kafka_server_sharepartitionmetrics_inflightbatchcount", place] == 1
    assert seen["kafka_server_sharepartitionmetrics_acquisitionlocktimeout_total", place] == 1
    assert seen["kafka_server_sharesessioncache_sharesessionscount", of()] == 1
    assert seen["kafka_server_sharesessioncache_sharepartitionscount", of()] == 1
    assert seen["kafka_server_share_coordinator_metrics_write_total", of()] >= 2
    assert seen["kafka_server_brokertopicmetrics_totalsharefetchrequests_total", of()] == 2
    assert seen["kafka_server_brokertopicmetrics_totalshareacknowledgementrequests_total", of()] == 1


def test_share_groups_are_counted_by_state(scrape: Scraped, client: Client) -> None:
    prepare(client)
    beat(client)
    name = "kafka_server_group_coordinator_metrics_share_group_count"
    seen = scrape()
    assert (seen[name, of(protocol="share")], seen[name, of(state="Stable")], seen[name, of(state="Empty")]) == (1, 1, 0)


def test_consumer_group_lag_is_exported(scrape: Scraped, client: Client) -> None:
    create(client, "t", 2)
    produce(client, "t", b"a", b"b", b"c")
    client.call(FindCoordinatorRequest("g", 0, ["g"]), 4)
    partitions = [OffsetCommitRequestPartition(0, 1), OffsetCommitRequestPartition(1, 0)]
    client.call(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=partitions)]), 8)
    seen = scrape()
    assert seen["kafka_consumergroup_lag", of(consumergroup="g", topic="t", partition="0")] == 2
    assert seen["kafka_consumergroup_lag", of(consumergroup="g", topic="t", partition="1")] == 0
    assert seen["kafka_consumergroup_lag_sum", of(consumergroup="g", topic="t")] == 2
    assert seen["kafka_consumergroup_members", of(consumergroup="g")] == 0
    assert seen["kafka_coordinator_group_groupmetadatamanager_numgroups", of()] == 1


def test_topic_lag_is_exported_only_if_every_partition_is_known(tmp_path: Path) -> None:
    with InProcessCluster(3, tmp_path / "data", {"offsets.topic.num.partitions": "1"}) as cluster:
        for topic, replicas in (("everywhere", 3), ("spread", 1)):
            cluster.topics.create(topic, 3, replicas=replicas)
        verifier_client = VerifierClient(lambda: [broker.bootstrap for broker in cluster.brokers.values()])
        wanted = [
            OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(index, 0) for index in range(3)])
            for topic in ("everywhere", "spread")
        ]
        at = verifier_client.coordinator(BY_GROUP, "g")
        verifier_client.ask(at, OffsetCommitRequest("g", topics=wanted), 8, lambda answer: answer.topics[0].partitions[0])
        verifier_client.close()
        coordinator = cluster.brokers[cluster.leader_of("__consumer_offsets")]
        text = coordinator.call_async(Metrics(coordinator.broker).text()).decode()
    assert 'kafka_consumergroup_lag_sum{consumergroup="g",topic="everywhere"} 0.0' in text
    assert 'kafka_consumergroup_lag_sum{consumergroup="g",topic="spread"}' not in text
    assert text.count("kafka_consumergroup_lag{") == 4, "of the other topic it has one partition"


def _add_groups(count: int, broker: Broker, *, as_offsets: bool) -> None:
    """Add `count` groups to a coordinator's state, or with `as_offsets` that many committed offsets of one group."""
    machine = next(iter(broker.services.groups.machines()))
    for number in range(count):
        if as_offsets:
            machine.offsets.committed.put("g", "t", number, Committed(OffsetCommitValue(1), 0))
        else:
            machine.groups[f"g{number}"] = ClassicGroup(f"g{number}", ClassicConfig())


@pytest.mark.parametrize("many", ["partitions", "groups", "offsets"])
def test_scrape_yields_to_other_tasks_while_it_reads_many_partitions(
    scrape: Scraped, client: Client, monkeypatch: pytest.MonkeyPatch, many: str
) -> None:
    seen: list[int] = []
    turns = itertools.count()

    async def scraped(broker: Broker) -> None:
        async def others() -> None:
            for _ in turns:
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        await Metrics(broker).text()
        beside.cancel()

    async def written(work: Callable[..., bytes], *found: object) -> bytes:
        seen.append(next(turns))
        return work(*found)

    monkeypatch.setattr(asyncio, "to_thread", written)  # where the text is made, when all is read
    create(client, "t", 1_000 if many == "partitions" else 1)
    if many != "partitions":
        client.call(FindCoordinatorRequest("g", 0, ["g"]), 4)  # creates the topic of groups
        scrape.broker.call(partial(_add_groups, 1_000, as_offsets=many == "offsets"))
    scrape.broker.call_async(scraped(scrape.broker.broker))
    assert seen[0] >= 5


def test_dashboard_queries_only_exported_metrics(scrape: Scraped, client: Client) -> None:
    create(client, "t")
    client.call(FindCoordinatorRequest("g", 0, ["g"]), 4)
    commit = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 0)])
    client.call(OffsetCommitRequest("g", topics=[commit]), 8)
    produce(client, "t", b"a")
    set_quota(client, (("client-id", "x"),), producer_byte_rate=1.0)
    names = {name for name, _ in scrape()}
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queried = {
        name for panel in panels for target in panel["targets"] for name in re.findall(r"\b(?:kafka|ottla|process)_\w+", target["expr"])
    }
    assert len(queried) > 10
    assert queried - names == set()


def test_throttled_requests_are_counted(scrape: Scraped, client: Client) -> None:
    create(client, "t")
    set_quota(client, (("client-id", "test"),), producer_byte_rate=1.0)
    produce(client, "t", b"a")
    seen = scrape()
    assert seen["ottla_quota_throttled_total", of(quota="producer_byte_rate")] == 1
    assert seen["ottla_quota_throttle_time_seconds_total", of(quota="producer_byte_rate")] > 1

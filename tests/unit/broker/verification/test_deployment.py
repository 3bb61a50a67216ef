from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.verification.deployment import (
    BROKERS,
    GROUP_COORDINATOR,
    LEADER,
    TRANSACTION_COORDINATOR,
    Cluster,
    Deployment,
    OneBroker,
    deployment_of,
)
from ottla.broker.verification.input_data import fill
from ottla.broker.verification.request_observer import RequestObserver
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from tests.support.cluster_produce import produce_to

NOW_MS = 1_700_000_000_000


@pytest.fixture(params=[1, BROKERS])
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployment]:
    made = deployment_of(request.param, tmp_path / "data")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "data", BROKERS)
    made.start()
    made.create("t", 1)
    yield made
    made.stop()


def test_deployment_has_one_broker_or_a_cluster_as_requested(deployment: Deployment) -> None:
    assert isinstance(deployment, OneBroker if len(deployment.brokers) == 1 else Cluster)
    assert deployment.bootstrap.split(",") == [each.bootstrap for each in deployment.brokers]


def test_verifiers_requests_are_not_recorded_and_hit_no_fault(deployment: Deployment) -> None:
    deployment.create("input", 2)
    observer = RequestObserver()
    deployment.watch(observer)
    rule = deployment.fault("error:api=Produce,code=NOT_ENOUGH_REPLICAS")
    fill(deployment.verifier_client, "input", 20, NOW_MS)
    assert (rule.seen, sum(observer.calls.values())) == (0, 0)
    assert len([each for each in deployment.examine({"input"}, audit=False).stored if each.outcome.readable]) == 16


def test_fault_rule_counts_over_all_brokers(deployment: Deployment) -> None:
    deployment.create("t", 1)
    rule = deployment.fault("error:api=Produce,code=NOT_ENOUGH_REPLICAS,after=1,times=1")
    last = deployment.brokers[-1]
    answers = [produce_to(broker, b"a").error_code for broker in (last, deployment.brokers[0], last)]
    assert answers[1] == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (rule.seen, rule.hits) == (2, 1)


def test_follower_fetches_are_not_counted_as_client_requests(cluster: Cluster) -> None:
    observer = RequestObserver()
    cluster.watch(observer)
    assert produce_to(cluster.brokers[LEADER - 1], b"a").base_offset == 0
    cluster.host.wait_in_sync("t")
    assert dict(observer.calls) == {ApiKey.PRODUCE: 1}
    assert cluster.reads == []


def test_partition_leader_group_and_transaction_coordinators_are_three_brokers(cluster: Cluster) -> None:
    led = {topic: cluster.host.leader_of(topic) for topic in ("t", "__consumer_offsets", "__transaction_state")}
    assert led == {"t": LEADER, "__consumer_offsets": GROUP_COORDINATOR, "__transaction_state": TRANSACTION_COORDINATOR}


def test_leader_alone_in_the_isr_rejects_acks_all_until_followers_resume(cluster: Cluster) -> None:
    leader = cluster.brokers[LEADER - 1]
    cluster.shrink_isr_to(LEADER)
    assert not cluster.all_brokers_answer
    assert produce_to(leader, b"a").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.resume_followers()
    cluster.host.wait_in_sync("t")
    assert cluster.all_brokers_answer
    assert produce_to(leader, b"b").error_code == ErrorCode.NONE


def test_stopped_followers_replicate_nothing_and_stay_in_sync(cluster: Cluster) -> None:
    cluster.stop_followers(LEADER)
    assert produce_to(cluster.brokers[LEADER - 1], b"a", acks=1).error_code == ErrorCode.NONE
    assert produce_to(cluster.brokers[LEADER - 1], b"b", timeout_ms=10).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert cluster.host.in_sync_of("t") == [1, 2, 3]
    assert [broker.topics.end_offset("t") for broker in cluster.brokers] == [2, 0, 0]


def test_replaced_leader_acknowledges_records_until_it_learns_of_its_successor(cluster: Cluster) -> None:
    cluster.replace(LEADER)
    assert cluster.host.wait_until_led("t") != LEADER
    assert produce_to(cluster.brokers[LEADER - 1], b"lost", acks=1).error_code == ErrorCode.NONE
    cluster.quiesce()
    assert cluster.examine({"t"}).stored == []


def test_settle_restarts_every_killed_broker_before_the_verdict(cluster: Cluster) -> None:
    cluster.kill(LEADER)
    assert cluster.host.wait_until_led("t") != LEADER
    cluster.quiesce()
    assert [each.is_up for each in cluster.brokers] == [True] * BROKERS
    assert cluster.host.in_sync_of("t") == [1, 2, 3]
    assert cluster.examine({"t", "there-is-none"}).findings == []


def test_single_broker_is_restarted_after_a_scripted_crash(tmp_path: Path) -> None:
    deployment = OneBroker(tmp_path / "data")
    deployment.start()
    try:
        deployment.create("t", 1)
        assert not deployment.restart_crashed()
        deployment.host.call(lambda _: deployment.host.script.on_crash())
        assert deployment.restart_crashed()
        assert deployment.host.topics.names() == ["t"]
    finally:
        deployment.stop()

"""Verification on an existing cluster: which scenarios run, which are left out, and what is left in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.broker.testing import InProcessBroker
from ottla.broker.testing.wire_verdict import WireSource
from ottla.broker.verification.judge import Guarantee, ScenarioOutcome
from ottla.broker.verification.program import CannotStart
from ottla.broker.verification.request_observer import RequestObserver
from ottla.broker.verification.user_cluster import UserCluster
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from tests.support.topic_calls import produce
from tests.support.verifications import program, results, verification


@pytest.fixture
def broker() -> Iterator[InProcessBroker]:
    with InProcessBroker() as running:
        running.topics.create("theirs")
        with Client("127.0.0.1", running.port) as client:
            produce(client, "theirs", b"a")
        yield running


def cluster_of(broker: InProcessBroker, *, keep: bool = False) -> UserCluster:
    return UserCluster(WireSource(broker.bootstrap), keep=keep)


def groups(broker: InProcessBroker) -> list[str]:
    return broker.call(lambda node: sorted(each.group_id for each in node.services.groups.all_groups()))


def test_correct_program_holds_on_a_user_cluster_and_nothing_is_left_behind(broker: InProcessBroker, tmp_path: Path) -> None:
    found = results(tmp_path, program("idempotent"), "lost-ack", "producer-state-lost", "zombie-leader", cluster=cluster_of(broker))
    assert {name: (each.outcome, each.note) for name, each in found.items()} == {
        "lost-ack": (ScenarioOutcome.HELD, ""),
        "producer-state-lost": (ScenarioOutcome.CANNOT_RUN, "only the broker itself can forget a producer"),
        "zombie-leader": (ScenarioOutcome.CANNOT_RUN, "brokers have to be stopped, paused or cut off"),
    }
    assert (broker.topics.names(), groups(broker)) == (["theirs"], [])


def test_wrong_program_is_broken_with_the_reason(broker: InProcessBroker, tmp_path: Path) -> None:
    (found,) = results(tmp_path, program("plain"), "lost-ack", cluster=cluster_of(broker)).values()
    breach = found.of(Guarantee.ONCE)
    assert breach is not None
    assert "enable idempotence" in breach.explanation


@pytest.mark.parametrize("uses", ["topic", "group", "transactional id"])
def test_program_that_uses_foreign_topics_groups_or_ids_is_stopped(broker: InProcessBroker, tmp_path: Path, uses: str) -> None:
    variable = {"topic": "OTTLA_OUTPUT", "group": "OTTLA_GROUP", "transactional id": "OTTLA_GROUP"}[uses]
    mode = {"topic": "idempotent", "group": "consumer", "transactional id": "transactional"}[uses]
    obedient = program(mode)
    stubborn = replace(obedient, command=["env", f"{variable}=theirs", *obedient.command])
    with pytest.raises(CannotStart, match=f"the program uses the {uses} theirs"):
        list(verification(tmp_path, stubborn, cluster=cluster_of(broker)).run())
    assert broker.topics.names() == ["theirs"]


def test_unreachable_cluster_cannot_be_verified(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        list(verification(tmp_path, program("plain"), cluster=UserCluster(WireSource("127.0.0.1:1"))).run())


def test_an_address_without_a_port_has_the_default_port() -> None:
    with pytest.raises(ConnectionError, match=r"no broker of 127\.0\.0\.9 can be reached"):
        UserCluster(WireSource("127.0.0.9")).deployment("calm").start()


def test_missing_permission_of_the_verifier_is_named(broker: InProcessBroker) -> None:
    deployment = cluster_of(broker).deployment("calm")
    deployment.start()
    broker.faults.add("error:api=CreateTopics,code=TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(RuntimeError, match=r"CreateTopics of ottla verify itself was rejected: .*needs the rights to create"):
        deployment.create(deployment.own_name("output"), 1)
    deployment.stop()


def test_topics_are_deleted_although_a_group_cannot_be(broker: InProcessBroker) -> None:
    deployment, observer = cluster_of(broker).deployment("calm"), RequestObserver()
    deployment.start()
    deployment.watch(observer)
    deployment.create(deployment.own_name("output"), 1)
    observer.joined[deployment.own_name("group")] = ApiKey.JOIN_GROUP
    broker.faults.add("drop-request:api=DeleteGroups")
    with pytest.raises(RuntimeError, match="left in the cluster; delete those whose names begin with ottla-verify-"):
        deployment.stop()
    assert broker.topics.names() == ["theirs"]


def test_other_programs_transactional_ids_are_not_fenced(broker: InProcessBroker) -> None:
    deployment, observer = cluster_of(broker).deployment("calm"), RequestObserver()
    deployment.start()
    deployment.watch(observer)
    with Client("127.0.0.1", broker.port) as client:
        find_coordinator(client, "theirs")
        before = client.call(InitProducerIdRequest("theirs", 60_000), 4)
        observer.transactional_ids.add("theirs")
        deployment.quiesce()
        after = client.call(InitProducerIdRequest("theirs", 60_000), 4)
    assert after.producer_epoch == before.producer_epoch + 1
    deployment.stop()


def find_coordinator(client: Client, transactional_id: str) -> None:
    """Create `__transaction_state`, and wait until its coordinator serves."""
    client.call(FindCoordinatorRequest(key=transactional_id, key_type=1), 3)

"""A cluster in this process returns to earlier states: every broker gives the same responses as at the mark, with the same leaders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.testing.cluster import InProcessCluster
from ottla.protocol.client import Client
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from tests.support.all_reads import TOPICS, answers
from tests.support.cluster_produce import produce_to
from tests.support.group_calls import commit, find_coordinator
from tests.support.txn_calls import Holder


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    with InProcessCluster(settings={"auto.leader.rebalance.enable": False}).record() as running:
        for name in TOPICS:
            running.topics.create(name, partitions=2)
        yield running


def all_answers(cluster: InProcessCluster) -> list[list[tuple[str, Any]]]:
    """Return each broker's responses to all reads, with the controller id set to 0, because a broker names a random one."""
    found = []
    for broker in cluster.brokers.values():
        with Client("127.0.0.1", broker.port) as client:
            found.append(answers(client))
    for _, answer in (each for one in found for each in one):
        if hasattr(answer, "controller_id"):
            answer.controller_id = 0
    return found


def placed(cluster: InProcessCluster) -> list[tuple[int, list[int], int]]:
    """Return (leader, ISR, leader epoch) of each partition."""
    found = [each for name in TOPICS for each in cluster.partitions_of(name).values()]
    return [(each.leader, list(each.isr), each.leader_epoch) for each in found]


def write(cluster: InProcessCluster, value: bytes) -> None:
    """Produce one record with this value to each topic."""
    for name in TOPICS:
        leader = cluster.wait_until_led(name)
        assert produce_to(cluster.brokers[leader], value + name.encode(), name).error_code == 0


def coordinator(cluster: InProcessCluster, key: str, kind: int) -> Client:
    """Return a connection to the key's coordinator, as soon as there is one."""
    with Client("127.0.0.1", cluster.brokers[1].port) as client:
        found: Any = None

        def known() -> bool:
            nonlocal found
            found = client.call(FindCoordinatorRequest(key, kind), version=3)
            return not found.error_code

        cluster.wait_until(known, f"{key} has a coordinator")
    return Client(found.host, found.port)


def began(cluster: InProcessCluster, client: Client) -> Holder:
    """Return a transactional producer, as soon as the coordinator can allocate a producer id."""
    found: Any = None

    def has_an_id() -> bool:
        nonlocal found
        found = client.call(InitProducerIdRequest("tx", 60_000))
        return not found.error_code

    cluster.wait_until(has_an_id, "the coordinator has producer ids")
    return Holder(client, "tx", found.producer_id, found.producer_epoch)


def test_every_broker_answers_as_at_the_mark_after_a_rewind(cluster: InProcessCluster) -> None:
    write(cluster, b"before-")
    with coordinator(cluster, "g", 0) as client:
        find_coordinator(client)
        commit(client, 1, group_id="g")
    with coordinator(cluster, "tx", 1) as client:
        holder = began(cluster, client)
        assert holder.add(("t", 1)) == [0]
    cluster.rewind(cluster.mark())  # settings show port 0 before a restart, and the chosen port afterwards
    mark = cluster.mark()
    before, now_ms, places = all_answers(cluster), cluster.clock.now_ms(), placed(cluster)
    leader = cluster.leader_of("t")
    for change in (lambda: cluster.kill(leader), lambda: cluster.partition({1}, {2, 3}), cluster.controller.kill):
        write(cluster, b"after-")
        cluster.clock.advance(90)
        change()
        cluster.rewind(mark)
        for then, now in zip(before, all_answers(cluster), strict=True):
            for one, other in zip(then, now, strict=True):
                assert other == one
        assert placed(cluster) == places
        assert cluster.clock.now_ms() - now_ms < 60_000
        cluster.clock.advance(1)
    write(cluster, b"at-last-")
    cluster.wait_in_sync("t")
    assert placed(cluster) == places
    cluster.assert_exactly_once(expected=[b"before-t", b"before-u", b"at-last-t", b"at-last-u"])


def test_a_broker_that_restarts_after_a_rewind_is_a_new_incarnation(cluster: InProcessCluster) -> None:
    cluster.rewind(cluster.mark())
    leader = cluster.leader_of("t")
    before = cluster.controller.image.brokers[leader].incarnation_id
    cluster.restart(leader)
    assert cluster.controller.image.brokers[leader].incarnation_id != before
    assert cluster.leader_of("t") != leader


def test_mark_needs_all_nodes_and_rewind_needs_a_mark_of_this_cluster(cluster: InProcessCluster) -> None:
    mark = cluster.mark()
    cluster.isolate_from_controller(2)
    with pytest.raises(RuntimeError, match="a mark needs all nodes: broker 2 does not run, is paused, or is cut off"):
        cluster.mark()
    cluster.heal()
    cluster.controller.kill()
    with pytest.raises(RuntimeError, match="the controller does not run"):
        cluster.mark()
    with pytest.raises(RuntimeError, match="mark the cluster"):
        cluster.brokers[1].mark()
    cluster.rewind(mark)
    assert cluster.mark()
    path = cluster.keep()
    cluster.stop()
    assert not list(path.parent.glob(f".{path.name}-marks-*"))
    with pytest.raises(ValueError, match="before this one was stopped"):
        cluster.rewind(mark)

"""A share group in a cluster: its state survives moves and crashes of the partition's leader and of the share coordinator, and its dead
letters reach their queue whichever broker leads it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pytest

from client_compat.support.brokers import HOST
from ottla.broker.cluster.topic_names import SHARE_GROUP_STATE
from ottla.broker.core.java_hash import partition_of
from ottla.broker.share.persister import SharePartitionKey
from ottla.protocol.client import Client
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.testing import InProcessCluster
from tests.support.cluster_produce import produce_to
from tests.support.group_calls import wait_until
from tests.support.share_calls import ACCEPT, REJECT, RELEASE, SHARE, ShareMember, acknowledged, configure, dead_letters, initialize

JOBS = 8
TIMEOUT_S = 60


class Queue:
    """Topic "t" with eight records in one partition, and the records that group "g" has neither accepted nor rejected: next delivery
    counts by offset."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self.cluster = cluster
        cluster.topics.create("t", 1, replicas=len(cluster.brokers))
        with self.client() as client:
            configure(client, "g", share__delivery__count__limit="10")
            self.key = SharePartitionKey("g", ShareMember(client, "m").topic_id, 0)
            wait_until(lambda: self._is_coordinated(client), "the share partition has a coordinator", TIMEOUT_S)
        with Client(HOST, cluster.brokers[self.coordinator].port) as client:
            initialize(client, "t", start_offset=0)
        for number in range(JOBS):
            assert produce_to(cluster.brokers[self.leader], b"%d" % number).error_code == 0
        self.counts = dict.fromkeys(range(JOBS), 1)

    def client(self) -> Client:
        """Connect to the leader."""
        return Client(HOST, self.cluster.brokers[self.leader].port)

    @property
    def leader(self) -> int:
        return self.cluster.leader_of("t")

    @property
    def state_index(self) -> int:
        """The partition of `__share_group_state` that has the state."""
        return partition_of(self.key.coordinator_key, len(self.cluster.partitions_of(SHARE_GROUP_STATE)))

    @property
    def coordinator(self) -> int:
        return self.cluster.leader_of(SHARE_GROUP_STATE, self.state_index)

    def wait_until_led_without(self, broker_id: int) -> None:
        """Wait until another broker than this one leads the partition and coordinates its state."""
        wait_until(lambda: {broker_id, -1}.isdisjoint({self.leader, self.coordinator}), "others lead", TIMEOUT_S)

    def work(self, first_is: int = ACCEPT) -> None:
        """Acquire the remaining records, which must be exactly those neither accepted nor rejected, with their delivery counts. Acknowledge
        the first one as `first_is`, and release the others."""
        with self.client() as client:
            member, found = ShareMember(client, "m"), dict[int, int]()
            wait_until(lambda: self._take(member, found), f"{len(self.counts)} records are acquired", TIMEOUT_S)
            assert found == self.counts
            first, *others = sorted(found)
            assert acknowledged(member.acknowledge((first, first, [first_is]), (others[0], others[-1], [RELEASE]))) == [0]
        self.counts = {offset: self.counts[offset] + 1 for offset in others}

    def _take(self, member: ShareMember, found: dict[int, int]) -> bool:
        response = member.fetch(max_wait_ms=500)
        parts = [part for topic in response.responses for part in topic.partitions]
        if response.error_code or any(part.error_code for part in parts):
            member.epoch = 0
            return False
        for one in (acquired for part in parts for acquired in part.acquired_records):
            found.update(dict.fromkeys(range(one.first_offset, one.last_offset + 1), one.delivery_count))
        return len(found) >= len(self.counts)

    def _is_coordinated(self, client: Client) -> bool:
        request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[self.key.coordinator_key])
        return bool(client.call(request, version=6).coordinators[0].error_code == 0)


@pytest.fixture
def queue() -> Iterator[Queue]:
    with InProcessCluster() as cluster:
        yield Queue(cluster)


def test_share_state_and_delivery_counts_survive_moves_and_crashes_of_leader_and_coordinator(queue: Queue) -> None:
    cluster = queue.cluster
    queue.work()
    cluster.move_leader(SHARE_GROUP_STATE, queue.state_index, queue.coordinator % len(cluster.brokers) + 1)
    queue.work()
    cluster.move_leader("t", 0, queue.leader % len(cluster.brokers) + 1)
    queue.work()
    for crash in (queue.leader, queue.coordinator):
        cluster.kill(crash)
        queue.wait_until_led_without(crash)
        queue.work()
        cluster.restart(crash)
    queue.work()
    assert queue.counts == {6: 7, 7: 7}


def test_dead_letters_reach_their_queues_leader_after_moves_and_crashes(queue: Queue) -> None:
    cluster, name = queue.cluster, "dlq.q"
    with queue.client() as client:
        configure(client, "g", errors__deadletterqueue__topic__name=name, errors__deadletterqueue__copy__record__enable="true")
    cluster.topics.create(name, 1, {"errors.deadletterqueue.group.enable": "true"}, replicas=len(cluster.brokers))

    def written() -> list[bytes | None]:
        """Return the dead letters in order. One that is written while the leader moves may be in the queue twice in a row: its write fails,
        and the new leader may have it all the same."""
        with Client(HOST, cluster.brokers[cluster.wait_until_led(name)].port) as client:
            return [value for value, _ in groupby(record.value for record in dead_letters(client, name))]

    elsewhere = queue.leader % len(cluster.brokers) + 1
    for broker_id in (queue.leader, elsewhere):
        cluster.move_leader(name, 0, broker_id)
        queue.work(REJECT)
    wait_until(lambda: written() == [b"0", b"1"], "the dead letters are written", TIMEOUT_S)
    cluster.kill(elsewhere)
    queue.work(REJECT)
    wait_until(lambda: written() == [b"0", b"1", b"2"], "the dead letter is written by the new leader", TIMEOUT_S)

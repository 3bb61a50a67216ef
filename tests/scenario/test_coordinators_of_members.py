"""Coordinators of groups and transactions in a cluster: they move, die, restart, and act as zombies.

At first, broker 1 is the coordinator; `t-0`, `t-1` and `t-2` are led by brokers 1, 2 and 3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k11_join_group as k11
from ottla.protocol.messages import k27_write_txn_markers as k27
from ottla.protocol.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.records.control import ControlType
from tests.support.broker_cluster import BrokerCluster, in_a_cluster
from tests.support.cluster_producers import ID, Producer, committed_offset, is_stable, markers, offset_commit, outcomes, sent
from tests.support.coroutine_tests import played_by
from tests.support.simulation import settle

STATE, OFFSETS = (TRANSACTION_STATE, 0), (CONSUMER_OFFSETS, 0)
AT_1, AT_2, AT_3 = (("t", index) for index in range(3))
EACH = ((1, AT_1), (2, AT_2), (3, AT_3))
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def play(body: Callable[[BrokerCluster], Awaitable[None]], **settings: str) -> None:
    async def whole(cluster: BrokerCluster) -> None:
        await create(cluster, TRANSACTION_STATE, (1, 2, 3))
        await create(cluster, CONSUMER_OFFSETS, (1, 2, 3))
        await create(cluster, "t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
        await body(cluster)

    in_a_cluster(whole, **settings)


async def create(cluster: BrokerCluster, name: str, *partitions: tuple[int, ...]) -> None:
    """Create a topic with these replicas, of which the first leads."""
    assignments = [CreatableReplicaAssignment(index, list(replicas)) for index, replicas in enumerate(partitions)]
    answer = await cluster.ask(1, CreateTopicsRequest([CreatableTopic(name, -1, -1, assignments)]))
    assert answer.topics[0].error_code == ErrorCode.NONE
    await cluster.until(lambda: all(member.knows(name) for member in cluster.members.values()), "everybody knows the topic")


async def elect(cluster: BrokerCluster, place: tuple[str, int], leader: int, isr: tuple[int, ...] | None = None) -> None:
    """Let the controller elect a leader, and wait until all brokers know it."""
    cluster.controller.change(*place, leader=leader, isr=None if isr is None else list(isr))
    await settle(200)


async def written(cluster: BrokerCluster) -> Producer:
    """Begin a transaction in all three partitions."""
    producer = await Producer(cluster).init(1)
    for node, place in EACH:
        assert await producer.write(node, place) == ErrorCode.NONE
    return producer


async def ended(cluster: BrokerCluster) -> None:
    """Wait until the transaction has ended in all three partitions."""
    await cluster.until(lambda: all(is_stable(cluster.members[node], place) for node, place in EACH), "it is over")


async def prepared_and_stuck(cluster: BrokerCluster) -> Producer:
    """Commit a transaction whose markers do not reach broker 3."""
    producer = await written(cluster)
    cluster.members[1].network.cut_off("node2")
    assert await producer.end(1) == ErrorCode.NONE
    await cluster.until(lambda: bool(markers(cluster.members[3], AT_3)), "it is over")
    assert not is_stable(cluster.members[2], AT_2)
    return producer


@played_by(play)
async def test_a_transaction_over_three_brokers_is_committed_on_all_and_the_next_one_can_begin(cluster: BrokerCluster) -> None:
    producer = await written(cluster)
    assert await producer.end(1) == ErrorCode.NONE
    await ended(cluster)
    for node, place in EACH:
        assert outcomes(cluster.members[node], place) == [(COMMIT, 0)]
        assert await producer.write(node, place) == ErrorCode.NONE
    assert await producer.end(1, commit=False) == ErrorCode.NONE
    await ended(cluster)
    for node, place in EACH:
        assert outcomes(cluster.members[node], place) == [(COMMIT, 0), (ABORT, 0)]


@played_by(play)
async def test_broker_that_does_not_lead_the_ids_partition_answers_not_coordinator(cluster: BrokerCluster) -> None:
    await Producer(cluster).init(1)
    for node in (2, 3):
        answer = await cluster.ask(node, InitProducerIdRequest(ID, 60_000), 5)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR


@played_by(play)
async def test_transactional_batch_is_written_only_after_verification_by_the_remote_coordinator(cluster: BrokerCluster) -> None:
    producer = await Producer(cluster).init(1)
    assert await producer.add(1, AT_1) == [ErrorCode.NONE]
    assert await producer.write(2, AT_2, version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert await producer.write(2, AT_2, version=10) == ErrorCode.INVALID_TXN_STATE
    assert await producer.add(1, AT_2) == [ErrorCode.NONE]
    cluster.members[2].network.cut_off("node1")
    assert await producer.write(2, AT_2, version=11) == ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.members[2].network.cut.clear()
    await cluster.pass_ms(2_000)
    assert await producer.write(2, AT_2, version=11) == ErrorCode.NONE


@played_by(play)
async def test_offsets_of_a_transaction_whose_group_lives_elsewhere_are_seen_when_it_is_committed(cluster: BrokerCluster) -> None:
    await elect(cluster, OFFSETS, 2)
    producer = await Producer(cluster).init(1)
    assert await producer.commit_offset(2, 42) == ErrorCode.NONE
    assert await committed_offset(cluster, 2) == (ErrorCode.NONE, -1)
    assert await producer.end(1) == ErrorCode.NONE
    await cluster.until(lambda: is_stable(cluster.members[2], OFFSETS), "it is over")
    assert await committed_offset(cluster, 2) == (ErrorCode.NONE, 42)


@played_by(play)
async def test_offsets_of_an_open_transaction_become_visible_at_the_groups_new_coordinator(cluster: BrokerCluster) -> None:
    producer = await Producer(cluster).init(1)
    assert await producer.commit_offset(1, 42) == ErrorCode.NONE
    await elect(cluster, OFFSETS, 3)
    assert await producer.end(1) == ErrorCode.NONE
    await cluster.until(lambda: is_stable(cluster.members[3], OFFSETS), "it is over")
    assert await committed_offset(cluster, 3) == (ErrorCode.NONE, 42)


@played_by(play)
async def test_new_coordinator_writes_the_markers_that_its_predecessor_missed(cluster: BrokerCluster) -> None:
    await prepared_and_stuck(cluster)
    cluster.members[1].crash()
    cluster.controller.fence(1)
    await cluster.until(lambda: is_stable(cluster.members[2], AT_2), "it is over")
    assert outcomes(cluster.members[2], AT_2) == [(COMMIT, 1)]
    assert [kind for kind, _ in outcomes(cluster.members[3], AT_3)] == [COMMIT, COMMIT]
    assert outcomes(cluster.members[3], AT_3)[-1] == (COMMIT, 1)
    producer = await Producer(cluster).init(2)
    assert await producer.write(2, AT_2) == ErrorCode.NONE


@played_by(play)
async def test_uncommitted_decision_is_lost_with_its_leader_and_waiters_get_not_coordinator(cluster: BrokerCluster) -> None:
    producer = await written(cluster)
    for node in (2, 3):
        cluster.members[node].network.cut_off("node1")
    answer = await producer.sends_end(1)
    commit = await sent(cluster, 1, offset_commit(7), 9)
    await cluster.pass_ms(300)
    assert (answer(), commit()) == (None, None)
    await elect(cluster, STATE, 2, isr=(2, 3))
    await elect(cluster, OFFSETS, 2, isr=(2, 3))
    assert answer().error_code == ErrorCode.NOT_COORDINATOR
    assert commit().topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    for node in (2, 3):
        cluster.members[node].network.cut.clear()
    assert await committed_offset(cluster, 2) == (ErrorCode.NONE, -1)
    assert markers(cluster.members[2], AT_2) == []
    assert await producer.end(2, commit=False) == ErrorCode.NONE
    await ended(cluster)
    for node, place in EACH:
        assert outcomes(cluster.members[node], place) == [(ABORT, 1)]
    await cluster.until(lambda: set(cluster.controller.partition(*OFFSETS).isr) == {1, 2, 3}, "it is over")
    await elect(cluster, OFFSETS, 1)
    assert await committed_offset(cluster, 1) == (ErrorCode.NONE, -1)


@played_by(play)
async def test_coordinator_answers_not_available_if_a_write_is_not_committed_in_time(cluster: BrokerCluster) -> None:
    for node in (2, 3):
        cluster.members[node].network.cut_off("node1")
    commit = await sent(cluster, 1, offset_commit(7), 9)
    await cluster.pass_ms(4_900)
    assert commit() is None
    await cluster.pass_ms(200)
    assert commit().topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@played_by(play)
async def test_a_new_coordinator_reads_its_predecessors_uncommitted_records_and_serves_them_once_committed(cluster: BrokerCluster) -> None:
    assert (await cluster.ask(1, offset_commit(6), 9)).topics[0].partitions[0].error_code == ErrorCode.NONE
    cluster.members[3].network.cut_off("node1")
    commit = await sent(cluster, 1, offset_commit(7), 9)
    await cluster.pass_ms(300)
    assert commit() is None
    cluster.members[3].network.cut_off("node2")
    await elect(cluster, OFFSETS, 2)
    log = cluster.members[2].partition(*OFFSETS).log
    assert log.high_watermark < log.log_end_offset
    cluster.members[3].network.cut.clear()
    assert await committed_offset(cluster, 2) == (ErrorCode.NONE, 7)
    assert log.high_watermark == log.log_end_offset


@played_by(play)
async def test_a_coordinator_elected_and_deposed_in_quick_succession_serves_in_the_last_epoch_only(cluster: BrokerCluster) -> None:
    for offset in range(20):
        assert (await cluster.ask(1, offset_commit(offset), 9)).topics[0].partitions[0].error_code == ErrorCode.NONE
    producer = await written(cluster)
    for leader in (2, 1, 3, 2, 3, 1, 2):
        cluster.controller.change(*OFFSETS, leader=leader)
        cluster.controller.change(*STATE, leader=leader)
    await cluster.pass_ms(1_000)
    assert await committed_offset(cluster, 2) == (ErrorCode.NONE, 19)
    for node in (1, 3):
        assert (await committed_offset(cluster, node))[0] == ErrorCode.NOT_COORDINATOR
    assert await producer.end(2) == ErrorCode.NONE
    await cluster.until(lambda: is_stable(cluster.members[3], AT_3), "it is over")
    assert outcomes(cluster.members[3], AT_3) == [(COMMIT, 7)]


@played_by(play)
async def test_waiting_join_gets_not_coordinator_when_the_coordinator_is_deposed(cluster: BrokerCluster) -> None:
    def join(member: str) -> k11.JoinGroupRequest:
        protocols = [k11.JoinGroupRequestProtocol("range", b"")]
        return k11.JoinGroupRequest("g", 30_000, 60_000, member, None, "consumer", protocols)

    first = await cluster.ask(1, join(""), 3)
    assert first.error_code == ErrorCode.NONE
    waiting = await sent(cluster, 1, join(""), 3)
    await cluster.pass_ms(300)
    assert waiting() is None
    await elect(cluster, OFFSETS, 2)
    assert waiting().error_code == ErrorCode.NOT_COORDINATOR


@played_by(play)
async def test_a_marker_follows_a_partition_whose_leader_moves(cluster: BrokerCluster) -> None:
    await prepared_and_stuck(cluster)
    await elect(cluster, AT_2, 3)
    await cluster.until(lambda: is_stable(cluster.members[3], AT_2), "it is over")
    assert outcomes(cluster.members[3], AT_2) == [(COMMIT, 0)]
    assert (await Producer(cluster).init(1)).epoch >= 0


@played_by(play, request_timeout_ms="5000")
async def test_a_marker_that_not_every_in_sync_replica_gets_is_answered_as_timed_out(cluster: BrokerCluster) -> None:
    producer = await written(cluster)
    for node in (2, 3):
        cluster.members[node].network.cut_off("node1")
    marker = k27.WritableTxnMarker(producer.producer_id, producer.epoch + 1, False, [k27.WritableTxnMarkerTopic("t", [0])], 0, 2)
    answer = await sent(cluster, 1, k27.WriteTxnMarkersRequest([marker]), 2)
    await cluster.pass_ms(4_900)
    assert answer() is None
    await cluster.pass_ms(200)
    assert answer().markers[0].topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    for node in (2, 3):
        cluster.members[node].network.cut.clear()


@played_by(play)
async def test_deleted_topic_does_not_block_a_transactions_completion(cluster: BrokerCluster) -> None:
    await prepared_and_stuck(cluster)
    assert (await cluster.ask(1, InitProducerIdRequest(ID, 60_000), 5)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    cluster.controller.delete("t")
    assert (await Producer(cluster).init(1)).epoch >= 0


@played_by(play)
async def test_broker_that_was_down_for_minutes_gets_its_marker_after_its_restart(cluster: BrokerCluster) -> None:
    only = ("only", 0)
    await create(cluster, "only", (2,))
    producer = await Producer(cluster).init(1)
    assert await producer.write(2, only) == ErrorCode.NONE
    cluster.members[2].crash()
    cluster.controller.fence(2)
    await settle()
    assert await producer.end(1) == ErrorCode.NONE
    await cluster.pass_ms(120_000)
    assert (await cluster.ask(1, InitProducerIdRequest(ID, 60_000), 5)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    await cluster.done(cluster.members[2].start())
    await cluster.until(lambda: is_stable(cluster.members[2], only), "the transaction is over")
    assert outcomes(cluster.members[2], only) == [(COMMIT, 0)]


@pytest.mark.parametrize("heals", [True, False])
@played_by(play)
async def test_deposed_coordinator_unaware_of_its_successor_is_fenced_by_the_successors_markers(
    cluster: BrokerCluster, heals: bool
) -> None:
    await prepared_and_stuck(cluster)
    cluster.members[1].network.cut_off("c3000")
    await elect(cluster, STATE, 2, isr=(2, 3))
    await cluster.until(lambda: is_stable(cluster.members[2], AT_2), "it is over")
    assert cluster.members[1].partition(*STATE).leads
    cluster.members[1].network.cut.discard("node2")
    if heals:
        cluster.members[1].network.cut.clear()
    await cluster.pass_ms(30_000)
    assert outcomes(cluster.members[2], AT_2) == [(COMMIT, 1)]
    (seen,) = cluster.members[2].partition(*AT_2).log.producers()
    late = k27.WritableTxnMarker(seen.producer_id, seen.producer_epoch, False, [k27.WritableTxnMarkerTopic("t", [1])], 0, 2)
    answer = await cluster.ask(2, k27.WriteTxnMarkersRequest([late]), 2)
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    producer = await Producer(cluster).init(2)
    assert await producer.write(2, AT_2) == ErrorCode.NONE
    assert await producer.end(2) == ErrorCode.NONE
    cluster.members[1].network.cut.clear()

"""Rules of the ISR, the high watermark and elections: several real brokers on one loop, with real frames.

Numbers in docstrings are Kafka's issues (KAFKA-n) and improvement proposals (KIP-n) about the same failure.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.protocol.error_codes import ErrorCode
from tests.support.coroutine_tests import played_by
from tests.support.replica_brokers import LAG_MS, Cluster, run
from tests.support.simulation import settle

TWO_IN_SYNC = LogConfig(min_insync_replicas=2)


def stand(cluster: Cluster, node: int, **fields: object) -> None:
    """Change fields of a broker in the controller's metadata; brokers learn of it when metadata is published."""
    rules = cluster.controller.rules
    rules.liveness = rules.liveness | {node: rules.liveness[node]._replace(**fields)}  # type: ignore[arg-type]  # fields by name


def proposed(cluster: Cluster) -> list[dict[int, int]]:
    """Return the proposed ISRs in AlterPartition requests: broker epochs by node id."""
    return [
        {member.broker_id: member.broker_epoch for member in request.topics[0].partitions[0].new_isr_with_epochs}
        for request in cluster.controller.requests
    ]


# --- joining the ISR -------------------------------------------------------------------------------------------------------------


@played_by(run, nodes=(1, 2, 3))
async def test_follower_joins_the_isr_only_with_all_records_from_before_the_leader_epoch(cluster: Cluster) -> None:
    """KAFKA-7128, scenario 17: records between the high watermark and the start of the epoch may be committed."""
    await cluster[3].crash()
    await cluster.elect(1, isr=(1, 2, 3))
    await cluster.produce(1, b"a")
    await cluster.pass_time(1_000)
    await cluster[1].crash()
    await cluster.elect(2)
    rules, before = cluster.controller.rules, cluster.controller.rules.liveness[3]
    rules.fence(3)
    await cluster.notify()
    rules.liveness = rules.liveness | {3: before}
    await cluster.notify()
    assert (cluster.state.isr, cluster[2].partition.log.high_watermark) == ((1, 2), 0)
    await cluster.fetch(2, 0, replica=3, current_leader_epoch=2)
    assert proposed(cluster) == []
    await cluster.fetch(2, 1, replica=3, current_leader_epoch=2, last_fetched_epoch=1)
    assert proposed(cluster) == [{1: -1, 2: 102, 3: 103}]


@pytest.mark.parametrize("standing", [{"fenced": True}, {"shutting_down": True}])
@played_by(run)
async def test_fenced_or_stopping_follower_that_fetches_is_not_proposed_for_the_isr_and_delays_no_commit(
    cluster: Cluster, standing: dict[str, bool]
) -> None:
    """KAFKA-13916 and KIP-841, scenario 18: a fenced broker that keeps fetching must not join the ISR again."""
    stand(cluster, 2, **standing)
    await cluster.elect(1, isr=(1,))
    answer = await cluster.produce(1, b"a", acks=-1)
    assert answer().error_code == 0
    await cluster.pass_time(2_000)
    assert cluster[2].values == [b"a"]
    assert (cluster.state.isr, proposed(cluster)) == ((1,), [])
    stand(cluster, 2, fenced=False, shutting_down=False)
    await cluster.notify()
    await cluster.pass_time(2_000)
    assert cluster.state.isr == (1, 2)


@played_by(run)
async def test_isr_proposal_with_a_fenced_follower_is_rejected_and_the_leader_commits_without_it(cluster: Cluster) -> None:
    """KIP-841, scenario 18: the controller rejects the proposed ISR, because a fenced broker is in it."""
    stand(cluster, 2, fenced=True)
    await cluster.elect(1, isr=(1,), notified=())
    cluster[1].partition.lead(cluster.state)
    await cluster.fetch(1, 0, replica=2, current_leader_epoch=1)
    assert proposed(cluster) == [{1: 101, 2: 102}]
    assert cluster[1].partition.replica.leadership.in_sync.maximal == {1}
    assert cluster.state.isr == (1,)


@played_by(run)
async def test_fetch_from_before_a_disk_loss_does_not_bring_the_follower_into_the_isr(cluster: Cluster) -> None:
    """KAFKA-14617 and KIP-903, scenario 19: the controller distinguishes incarnations by their epochs."""
    await cluster[2].crash()
    await cluster.elect(1, isr=(1,))
    await cluster.produce(1, b"a")
    cluster.controller.reachable = False
    await cluster[2].start()
    await cluster.pass_time(2_000)
    assert set(map(str, proposed(cluster))) == {str({1: 101, 2: 102})}
    await cluster[2].crash()
    cluster[2].files = MemoryFiles()
    stand(cluster, 2, epoch=202)
    cluster.controller.reachable = True
    await cluster.pass_time(100, step=50)
    assert (proposed(cluster)[-1], cluster.state.isr) == ({1: 101, 2: 102}, (1,))
    await cluster[2].start()
    await cluster.notify()
    await cluster.pass_time(2_000)
    assert (proposed(cluster)[-1], cluster.state.isr) == ({1: 101, 2: 202}, (1, 2))
    assert cluster[2].values == [b"a"]


@played_by(run)
async def test_isr_proposal_names_the_incarnation_that_caught_up_even_after_its_successor_fetched(cluster: Cluster) -> None:
    """KAFKA-15221, scenario 20: an ISR proposal has the broker epoch of the incarnation that caught up, not that of its successor."""
    await cluster[2].crash()
    await cluster.elect(1, isr=(1,))
    await cluster.produce(1, b"a")
    cluster.controller.reachable = False
    await cluster.fetch(1, 1, replica=2, current_leader_epoch=1, last_fetched_epoch=1)
    stand(cluster, 2, epoch=202)
    await cluster.notify()
    await cluster.fetch(1, 0, replica=2, current_leader_epoch=1)
    cluster.controller.reachable = True
    await cluster.pass_time(100, step=50)
    assert {tuple(isr.items()) for isr in proposed(cluster)} == {((1, 101), (2, 102))}
    assert cluster.state.isr == (1,)


@played_by(run, config=TWO_IN_SYNC)
async def test_follower_that_would_leave_the_isr_at_once_does_not_join(cluster: Cluster) -> None:
    """KAFKA-19996, scenario 27: with too small an ISR the high watermark does not advance, so a replica that reaches it may still lag."""
    await cluster.elect(1)
    await cluster.pass_time(1_000)
    await cluster[2].crash()
    for value in (b"a", b"b", b"c"):
        await cluster.produce(1, value)
    await cluster.pass_time(2 * LAG_MS)
    assert (cluster.state.isr, cluster[1].partition.log.high_watermark) == ((1,), 0)
    before = len(cluster.controller.requests)
    for end in (0, 1, 2):
        cluster.clock.advance(1)
        await cluster.fetch(1, end, replica=2, current_leader_epoch=1, last_fetched_epoch=1 if end else -1)
        cluster[1].partition.maybe_shrink_isr()
    assert proposed(cluster)[before:] == []
    await cluster.fetch(1, 3, replica=2, current_leader_epoch=1, last_fetched_epoch=1)
    await cluster.pass_time(1_000)
    assert (proposed(cluster)[before:], cluster.state.isr) == ([{1: 101, 2: 102}], (1, 2))
    assert cluster[1].partition.log.high_watermark == 3


# --- the high watermark ----------------------------------------------------------------------------------------------------------


@played_by(run)
async def test_high_watermark_waits_for_a_replica_that_is_joining_the_isr(cluster: Cluster) -> None:
    """KAFKA-4485, scenario 22: the controller may already have added the joining replica to the ISR."""
    await cluster[2].crash()
    await cluster.elect(1, isr=(1,))
    cluster.controller.reachable = False
    await cluster.fetch(1, 0, replica=2, current_leader_epoch=1)
    answer = await cluster.produce(1, b"a", acks=-1)
    assert (answer(), cluster[1].partition.log.high_watermark) == (None, 0)
    await cluster.fetch(1, 1, replica=2, current_leader_epoch=1, last_fetched_epoch=1)
    assert (answer().error_code, cluster[1].partition.log.high_watermark) == (0, 1)


@played_by(run, nodes=(1, 2, 3))
async def test_fenced_replica_does_not_delay_commits_even_if_it_had_just_caught_up(cluster: Cluster) -> None:
    """KAFKA-15021, scenario 23: the controller removes the fenced replica from the ISR without a new leader epoch."""
    await cluster.elect(1)
    await cluster.produce(1, b"a", acks=-1)
    await cluster.pass_time(1_000)
    await cluster[3].crash()
    epoch = cluster.state.leader_epoch
    cluster.controller.rules.fence(3)
    await cluster.notify()
    assert (cluster.state.isr, cluster.state.leader_epoch) == ((1, 2), epoch)
    answer = await cluster.produce(1, b"b", acks=-1)
    assert answer().error_code == 0
    assert cluster[1].partition.log.high_watermark == 2


@played_by(run, nodes=(1, 2, 3), config=TWO_IN_SYNC)
async def test_raised_min_insync_replicas_delays_pending_acks_and_lowering_completes_them(cluster: Cluster) -> None:
    """Scenario 29: acks=all requests wait for min.insync.replicas, although the followers have the records all the time."""
    await cluster[3].crash()
    await cluster.elect(1, isr=(1, 2))
    await cluster.pass_time(1_000)
    cluster.unreachable.add(1)
    await cluster.pass_time(1_000)
    answer = await cluster.produce(1, b"a", acks=-1)
    cluster[1].partition.reconfigure(replace(TWO_IN_SYNC, min_insync_replicas=3))
    cluster.unreachable.clear()
    await cluster.pass_time(2_000)
    assert cluster[2].values == [b"a"]
    assert (answer(), cluster[1].partition.log.high_watermark) == (None, 0)
    refused = await cluster.produce(1, b"b", acks=-1)
    assert refused().error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    cluster[1].partition.reconfigure(TWO_IN_SYNC)
    await settle()
    assert answer().error_code == 0
    assert cluster[1].partition.log.high_watermark == 1


@played_by(run, nodes=(1, 2, 3))
async def test_reelected_leader_forgets_follower_progress_from_before_another_leadership(cluster: Cluster) -> None:
    """KAFKA-13790, scenario 30: a follower may have truncated records of this log for the leader in between."""
    await cluster[2].crash()
    await cluster.elect(1, isr=(1, 2, 3))
    waiting = await cluster.produce(1, b"a", acks=-1)
    await cluster.pass_time(1_000)
    assert (cluster[3].values, waiting()) == ([b"a"], None)
    await cluster.elect(2, notified=(3,))
    await cluster[2].start()
    await cluster.produce(2, b"b")
    await cluster.pass_time(1_000)
    assert cluster[3].values == [b"b"]
    await cluster[2].crash()
    await cluster.elect(1, isr=(1, 3), notified=(1,))
    assert (waiting(), cluster[1].partition.log.high_watermark) == (None, 0), "broker 3 has not got it any more"
    await cluster.notify()
    await cluster.pass_time(2_000)
    assert waiting().error_code == 0
    assert cluster[3].values == cluster[1].values == [b"a"]


# --- elections -------------------------------------------------------------------------------------------------------------------


@played_by(run, nodes=(1, 2, 3), config=TWO_IN_SYNC)
async def test_records_on_the_last_replica_alone_are_not_committed_so_an_earlier_stopped_one_may_lead(cluster: Cluster) -> None:
    """KIP-966, scenario 34: two of three are stopped, the last one is killed, and the first of the others to restart is elected."""
    await cluster.elect(1)
    answer = await cluster.produce(1, b"a", acks=-1)
    await cluster.pass_time(1_000)
    assert answer().error_code == 0
    for node in (3, 2):
        await cluster[node].crash()
        cluster.controller.rules.fence(node)
        await cluster.notify()
    taken, refused = await cluster.produce(1, b"alone"), await cluster.produce(1, b"b", acks=-1)
    assert (taken().error_code, refused().error_code) == (0, ErrorCode.NOT_ENOUGH_REPLICAS)
    seen = await cluster.fetch(1, 1)
    assert (seen.high_watermark, seen.records) == (1, b"")
    await cluster[1].crash(power=True)
    cluster.controller.rules.fence(1)
    await cluster.elect(2, isr=(2,))
    for node in (2, 3, 1):
        await cluster.register(node)
        await cluster.pass_time(2_000)
    assert sorted(cluster.state.isr) == [1, 2, 3]
    answer = await cluster.produce(2, b"c", acks=-1)
    await cluster.pass_time(1_000)
    assert answer().error_code == 0
    assert [cluster[node].values for node in (1, 2, 3)] == [[b"a", b"c"]] * 3


@played_by(run)
async def test_partition_whose_last_leader_lost_its_disk_stays_leaderless_until_an_unclean_election(cluster: Cluster) -> None:
    """Scenario 36: an empty log of a restarted broker must not make the others truncate theirs."""
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    await cluster.pass_time(1_000)
    await cluster[2].crash()
    await cluster.elect(1, isr=(1,))
    await cluster.produce(1, b"lost")
    await cluster[1].crash()
    cluster[1].files = MemoryFiles()
    await cluster.elect(-1)
    for node in (2, 1):
        await cluster.register(node)
    await cluster.pass_time(5_000)
    for node in (1, 2):
        refused = await cluster.produce(node, b"b")
        assert refused().error_code == (await cluster.fetch(node, 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [cluster[node].values for node in (1, 2)] == [[], [b"a"]]
    await cluster.elect(2, isr=(2,))
    await cluster.pass_time(2_000)
    assert [cluster[node].values for node in (1, 2)] == [[b"a"], [b"a"]]
    assert sorted(cluster.state.isr) == [1, 2]

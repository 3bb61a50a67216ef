"""A partition on several real brokers of one loop: replication, truncation, commits and responses, with real frames.

Numbers in docstrings are Kafka's issues (KAFKA-n) and improvement proposals (KIP-n) about the same failure.
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.coroutine_tests import played_by
from tests.support.replica_brokers import LAG_MS, TOPIC, TOPIC_ID, Cluster, run

LATEST = -1


async def list_offsets(cluster: Cluster, node: int, timestamp: int, version: int = 7, replica: int = -1) -> Any:
    topic = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(0, -1, timestamp)])
    response = await cluster.call(node, ListOffsetsRequest(replica, topics=[topic]), version)
    return response.topics[0].partitions[0]


# --- following -------------------------------------------------------------------------------------------------------------------


@played_by(run)
async def test_follower_log_equals_the_leaders_byte_for_byte_and_acks_all_waits_for_it(cluster: Cluster) -> None:
    await cluster.elect(1)
    answer = await cluster.produce(1, b"a", b"b", acks=-1)
    await cluster.pass_time(1_000)
    assert answer().error_code == 0
    assert cluster[2].values == [b"a", b"b"]
    assert cluster[2].segments == cluster[1].segments
    assert cluster[2].partition.log.high_watermark == 2


@played_by(run)
async def test_acks_all_without_the_follower_times_out(cluster: Cluster) -> None:
    await cluster.elect(1)
    await cluster[2].crash()
    answer = await cluster.produce(1, b"a", acks=-1)
    assert answer() is None
    await cluster.pass_time(5_000)
    response = answer()
    assert (response.error_code, response.base_offset, response.log_start_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0, 0), "where it stays"
    assert cluster[1].values == [b"a"]


@played_by(run)
async def test_follower_fetches_from_a_leader_that_was_unreachable_or_has_moved(cluster: Cluster) -> None:
    cluster.unreachable.add(1)
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    await cluster.pass_time(3_000)
    assert cluster[2].values == []
    cluster.unreachable.clear()
    await cluster.pass_time(2_000)
    assert cluster[2].values == [b"a"]
    await cluster[1].crash()
    await cluster.pass_time(3_000)
    cluster[1].endpoint = cluster[1].endpoint._replace(host="elsewhere")
    await cluster.register(1)
    await cluster.elect(1)
    await cluster.produce(1, b"b")
    await cluster.pass_time(20_000)
    assert cluster[2].values == [b"a", b"b"]


@played_by(run)
async def test_restarted_follower_does_not_truncate_records_above_its_high_watermark(cluster: Cluster) -> None:
    """KIP-101, scenario 1: the last records were acknowledged, and the restarted follower itself becomes the next leader."""
    await cluster.elect(1)
    answer = await cluster.produce(1, b"a", acks=-1)
    assert answer().error_code == 0
    await cluster[2].crash()
    await cluster.register(2)
    assert cluster[2].partition.log.high_watermark == 0, "no checkpoint was written"
    await cluster[1].crash()
    await cluster.elect(2, isr=(2,))
    assert cluster[2].values == [b"a"]
    assert cluster[2].partition.log.high_watermark == 1


@played_by(run)
async def test_restarted_brokers_high_watermark_is_the_checkpointed_one(cluster: Cluster) -> None:
    await cluster.elect(1)
    for value in (b"a", b"b"):
        await cluster.produce(1, value)
    await cluster.pass_time(1_000)
    cluster[1].log_dir.high_watermark_checkpoint()()
    await cluster[2].crash()
    await cluster.produce(1, b"c")
    await cluster[1].crash()
    await cluster.register(1)
    log = cluster[1].partition.log
    assert (log.high_watermark, log.log_end_offset) == (2, 3)


@played_by(run)
async def test_two_diverged_logs_converge_after_both_brokers_lost_power(cluster: Cluster) -> None:
    """KIP-101, scenario 2: each of both brokers has led once and loses its unsynced records."""
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    await cluster.pass_time(1_000)
    for node in (1, 2):
        await cluster[node].partition.flush()
    cluster.unreachable.update((1, 2))
    await cluster.pass_time(1_000)
    await cluster.produce(1, b"only of 1", b"and this")
    await cluster[1].crash()
    await cluster.elect(2, isr=(2,))
    await cluster.produce(2, b"only of 2")
    await cluster[2].crash(power=True)
    await cluster.elect(1, isr=(1,))
    await cluster.register(1)
    await cluster.produce(1, b"new of 1")
    await cluster.register(2)
    cluster.unreachable.clear()
    await cluster.pass_time(5_000)
    assert cluster[1].values == [b"a", b"only of 1", b"and this", b"new of 1"]
    assert cluster[2].segments == cluster[1].segments


@played_by(run)
async def test_log_with_epochs_unknown_to_the_leader_is_truncated_in_several_rounds(cluster: Cluster) -> None:
    """KIP-279, scenario 3 (KAFKA-6361): fast unclean elections give a follower epochs that its leader never saw."""
    cluster.unreachable.update((1, 2))
    for leader, other in ((1, 2), (2, 1), (1, 2), (2, 1), (1, 2)):
        await cluster.elect(leader, notified=(leader,))
        for value in (b"x%d" % leader, b"y%d" % leader):
            await cluster.produce(leader, value)
        assert not cluster[other].values or cluster[other].values[0] != cluster[leader].values[0]
    await cluster.elect(2)
    await cluster.produce(2, b"z")
    cluster.unreachable.clear()
    await cluster.pass_time(5_000)
    assert cluster[1].values == [b"x2", b"y2", b"x2", b"y2", b"z"]
    assert cluster[1].segments == cluster[2].segments


@played_by(run)
async def test_follower_truncates_and_fetches_again_for_a_new_epoch_of_the_same_leader(cluster: Cluster) -> None:
    """KAFKA-7164, scenario 4: the follower compares its log with the leader's again."""
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    await cluster.pass_time(1_000)
    await cluster.elect(1)
    await cluster.produce(1, b"b")
    await cluster.pass_time(1_000)
    assert cluster[2].values == [b"a", b"b"]
    assert [entry.epoch for entry in cluster[2].partition.log.epochs.entries] == [1, 2]


@played_by(run)
async def test_epoch_of_a_leader_without_records_is_known_to_followers(cluster: Cluster) -> None:
    """KAFKA-7415, scenario 6, and KAFKA-10706, scenario 5: the follower learns where the epoch ended, and one without it does not loop."""
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    await cluster.pass_time(1_000)
    await cluster.elect(1)
    await cluster.elect(2)
    await cluster.produce(2, b"b")
    await cluster.pass_time(2_000)
    topic = OffsetForLeaderTopic(TOPIC, [OffsetForLeaderPartition(0, 3, 2)])
    response = await cluster.call(2, OffsetForLeaderEpochRequest(1, [topic]), 4)
    ended = response.topics[0].partitions[0]
    assert (ended.error_code, ended.leader_epoch, ended.end_offset) == (0, 1, 1)
    assert cluster[1].segments == cluster[2].segments
    assert cluster[1].fetchers.is_fetched(cluster[1].partition)


@played_by(run)
async def test_follower_behind_the_leaders_log_start_restarts_there(cluster: Cluster) -> None:
    """Scenario 16: retention has deleted the next records; the epochs begin at the new start."""
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    await cluster.pass_time(1_000)
    await cluster[2].crash()
    for value in (b"b", b"c", b"d"):
        await cluster.produce(1, value)
    await cluster.pass_time(LAG_MS + 1_000)
    cluster[1].partition.log.delete_records_before(3)
    await cluster.register(2)
    await cluster.pass_time(5_000)
    log = cluster[2].partition.log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (3, 4, 4)
    assert log.epochs.entries == cluster[1].partition.log.epochs.entries == ((1, 3),)
    assert cluster[2].values == [b"d"]


@played_by(run)
async def test_a_new_replica_of_a_log_that_begins_inside_a_batch_has_the_whole_batch(cluster: Cluster) -> None:
    """Scenario 12: DeleteRecords has set the log's start inside a batch."""
    await cluster[2].crash()
    await cluster.elect(1, isr=(1,))
    await cluster.produce(1, b"a", b"b", b"c")
    cluster[1].partition.log.delete_records_before(2)
    await cluster.register(2)
    await cluster.pass_time(5_000)
    log = cluster[2].partition.log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 3, 3)
    assert cluster[2].segments == cluster[1].segments


@played_by(run)
async def test_unclean_election_truncates_the_others_logs_and_high_watermarks(cluster: Cluster) -> None:
    """Scenario 15: followers truncate to the new leader's log, and its high watermark counts."""
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    await cluster.pass_time(1_000)
    await cluster[2].crash()
    await cluster.elect(1, isr=(1,))
    for value in (b"lost", b"lost too"):
        await cluster.produce(1, value)
    assert cluster[1].partition.log.high_watermark == 3
    await cluster.elect(2, isr=(2,))
    await cluster.register(2)
    await cluster.pass_time(5_000)
    assert cluster[1].values == [b"a"]
    assert cluster[1].partition.log.high_watermark == cluster[1].partition.replica.high_watermark == 1
    await cluster.produce(2, b"b")
    await cluster.pass_time(1_000)
    diverging = await cluster.fetch(2, 3, last_fetched_epoch=2)
    assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (1, 1)


@played_by(run)
async def test_new_leader_answers_a_retry_with_the_original_offsets(cluster: Cluster) -> None:
    """Scenario 14: a follower has its leader's producer state, also after a truncation."""
    ours = {"producer_id": 9, "producer_epoch": 0}
    await cluster.elect(1)
    await cluster.produce(1, b"a", **ours, base_sequence=0)
    await cluster.pass_time(1_000)
    cluster.unreachable.add(1)
    await cluster.pass_time(1_000)
    await cluster.produce(1, b"b", **ours, base_sequence=1)
    await cluster.elect(2, isr=(2,))
    await cluster.pass_time(2_000)
    assert cluster[1].values == [b"a"]
    again = await cluster.produce(2, b"a", **ours, base_sequence=0)
    assert (again().error_code, again().base_offset) == (0, 0)
    await cluster.produce(2, b"b", **ours, base_sequence=1)
    cluster.unreachable.clear()
    await cluster.elect(1)
    await cluster.pass_time(2_000)
    repeated = await cluster.produce(1, b"b", **ours, base_sequence=1)
    assert (repeated().error_code, repeated().base_offset) == (0, 1)
    assert cluster[1].values == cluster[2].values == [b"a", b"b"]


# --- leading ---------------------------------------------------------------------------------------------------------------------


@played_by(run)
async def test_follower_that_learns_a_new_epoch_before_the_leader_retries_its_fetch(cluster: Cluster) -> None:
    """KAFKA-14078, scenario 26: the fetch gets NOT_LEADER_OR_FOLLOWER, because the leader does not know its election yet."""
    await cluster.elect(1, notified=(2,))
    await cluster.pass_time(2_000)
    assert (await cluster.fetch(1, 0, replica=2, current_leader_epoch=1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await cluster.fetch(1, 0, replica=9, current_leader_epoch=0)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await cluster.fetch(1, 0, replica=9)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await cluster.notify()
    await cluster.produce(1, b"a")
    await cluster.pass_time(3_000)
    assert cluster[2].values == [b"a"]


@pytest.mark.parametrize("version", [12, 15, 17])
@played_by(run)
async def test_only_the_leader_serves_a_follower_and_the_epoch_is_checked_first(cluster: Cluster, version: int) -> None:
    await cluster.elect(1)
    assert (await cluster.fetch(2, 0, replica=1, version=version)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    fenced = await cluster.fetch(2, 0, replica=1, version=version, current_leader_epoch=0)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await cluster.fetch(1, 5, replica=2, version=version)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@played_by(run)
async def test_diverging_fetch_is_no_follower_progress_and_an_out_of_range_fetch_does_not_diverge(cluster: Cluster) -> None:
    """KAFKA-13141, scenario 8: a diverging fetch is no progress of the follower. KAFKA-12996, scenario 7: a fetch below the log's start
    restarts there."""
    await cluster[2].crash()
    for value in (b"a", b"b"):
        await cluster.elect(1)
        await cluster.produce(1, value)
    known = cluster[1].partition.replica.leadership.followers[2]
    diverging = await cluster.fetch(1, 2, replica=2, current_leader_epoch=2, last_fetched_epoch=1)
    assert (diverging.diverging_epoch.epoch, diverging.diverging_epoch.end_offset) == (1, 1)
    assert (known.log_end, cluster[1].partition.log.high_watermark) == (0, 0)
    await cluster.fetch(1, 1, replica=2, current_leader_epoch=2, last_fetched_epoch=1)
    assert (known.log_end, cluster[1].partition.log.high_watermark) == (1, 1)
    cluster[1].partition.log.delete_records_before(1)
    below = await cluster.fetch(1, 0, replica=2, current_leader_epoch=2, last_fetched_epoch=2)
    assert (below.error_code, below.diverging_epoch.epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


@played_by(run)
async def test_fetch_of_a_replaced_incarnation_is_rejected(cluster: Cluster) -> None:
    """KIP-903, scenario 19: the leader rejects fetches with an old broker epoch."""
    await cluster[2].crash()
    await cluster.elect(1)
    rules = cluster.controller.rules
    before = rules.liveness[2]
    rules.liveness[2] = before._replace(epoch=before.epoch + 1)
    topics = [FetchTopic(TOPIC, TOPIC_ID, [FetchPartition(0, partition_max_bytes=1)])]
    request = FetchRequest(replica_state=ReplicaState(2, before.epoch), max_wait_ms=0, session_epoch=-1, topics=topics)
    response = await cluster.call(1, request, 17)
    assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@played_by(run)
async def test_lagging_follower_leaves_the_isr_and_rejoins_when_it_has_caught_up(cluster: Cluster) -> None:
    """Scenario 33, and KAFKA-13091, scenario 21: the high watermark advances when the controller has agreed."""
    await cluster.elect(1)
    await cluster.pass_time(1_000)
    await cluster[2].crash()
    answer = await cluster.produce(1, b"a")
    await cluster.pass_time(LAG_MS)
    assert cluster[1].partition.log.high_watermark == 0
    await cluster.pass_time(1_000)
    assert (cluster.state.isr, cluster[1].partition.log.high_watermark) == ((1,), 1)
    assert answer().error_code == 0
    await cluster.register(2)
    await cluster.pass_time(2_000)
    assert cluster.state.isr == (1, 2)
    epochs = {
        member.broker_id: member.broker_epoch for member in cluster.controller.requests[-1].topics[0].partitions[0].new_isr_with_epochs
    }
    assert epochs == {1: 101, 2: 202}


@played_by(run)
async def test_idle_partition_keeps_its_isr(cluster: Cluster) -> None:
    """Scenario 32: without writes, fetches of caught-up followers keep them in the ISR."""
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    await cluster.pass_time(6 * LAG_MS)
    assert (cluster.state.isr, cluster.controller.requests) == ((1, 2), [])


@played_by(run)
async def test_leader_paused_during_an_election_fails_pending_requests_and_truncates_its_log(cluster: Cluster) -> None:
    """Scenario 31: the leader is paused during the election, and resumes with pending requests and records of its old epoch."""
    await cluster.elect(1)
    cluster.unreachable.add(1)
    await cluster.pass_time(1_000)
    await cluster.elect(2, isr=(2,), notified=(2,))
    waiting = await cluster.produce(1, b"never acknowledged", acks=-1)
    assert waiting() is None
    await cluster.produce(2, b"a")
    await cluster.notify((1,))
    assert waiting().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    refused = await cluster.produce(1, b"b")
    assert refused().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await cluster.pass_time(2_000)
    assert cluster[1].values == [b"a"]


@played_by(run, nodes=(1, 2, 3), config=LogConfig(min_insync_replicas=2))
async def test_too_small_an_isr_rejects_only_acks_all(cluster: Cluster) -> None:
    """Scenario 70: the rest of the ISR is cut off."""
    for node in (2, 3):
        await cluster[node].crash()
    await cluster.elect(1, isr=(1,))
    refused, taken = await cluster.produce(1, b"a", acks=-1), await cluster.produce(1, b"b", acks=1)
    assert refused().error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert taken().error_code == 0
    assert cluster[1].values == [b"b"]


# --- clients ---------------------------------------------------------------------------------------------------------------------


@played_by(run)
async def test_consumer_reads_committed_records_from_any_replica_but_before_version_11_only_from_the_leader(cluster: Cluster) -> None:
    """KIP-392; KAFKA-9835 and KAFKA-9838, scenario 13: a read never passes the high watermark."""
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    await cluster.pass_time(600)
    follower, leader = cluster[2].partition.log, cluster[1].partition.log
    await cluster.produce(1, b"b")
    assert (leader.high_watermark, follower.high_watermark, follower.log_end_offset) == (2, 1, 2)
    data = await cluster.fetch(2, 0)
    assert (data.error_code, data.high_watermark, len(data.records or b"")) == (0, 1, leader.size_bytes // 2)
    assert (await cluster.fetch(2, 1)).records == b""
    assert (await cluster.fetch(2, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await cluster.fetch(2, 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@played_by(run, nodes=(1, 2, 3))
async def test_consumer_in_another_rack_is_redirected_to_the_follower_there_that_has_its_offset(cluster: Cluster) -> None:
    """KIP-392: the leader names a follower in the consumer's rack as preferred read replica if it has the fetch offset."""
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    racks = {1: "here", 2: "there", 3: "there"}
    assert (await cluster.fetch(1, 0, rack="there")).preferred_read_replica == -1, "without replica.selector.class"
    cluster[1].cluster_context.rack_of = racks.get
    sent_on = await cluster.fetch(1, 0, rack="there")
    assert (sent_on.preferred_read_replica, sent_on.records, sent_on.high_watermark) == (3, b"", 1)
    for rack in ("here", "elsewhere", ""):
        assert (await cluster.fetch(1, 0, rack=rack)).preferred_read_replica == -1
    cluster[2].cluster_context.rack_of = racks.get
    assert (await cluster.fetch(2, 0, rack="here")).preferred_read_replica == -1, "only the leader sends on"
    await cluster[3].crash()
    await cluster.produce(1, b"b")
    assert (await cluster.fetch(1, 2, rack="there")).preferred_read_replica == 2


@played_by(run)
async def test_consumer_waiting_at_a_follower_is_answered_when_the_follower_learns_of_the_commit(cluster: Cluster) -> None:
    await cluster.elect(1)
    await cluster.pass_time(600)
    topics = [FetchTopic(TOPIC, TOPIC_ID, [FetchPartition(0, partition_max_bytes=1 << 20)])]
    waiting = await cluster.send(2, FetchRequest(max_wait_ms=60_000, min_bytes=1, session_epoch=-1, topics=topics), 17)
    await cluster.produce(1, b"a")
    await cluster.pass_time(1_000)
    assert waiting().responses[0].partitions[0].high_watermark == 1


@played_by(run)
async def test_new_leader_answers_offset_not_available_until_it_knows_the_committed_end(cluster: Cluster) -> None:
    """KIP-207: until its high watermark has reached its epoch's start, a new leader answers ListOffsets with OFFSET_NOT_AVAILABLE (before
    version 5 LEADER_NOT_AVAILABLE)."""
    await cluster.elect(1)
    await cluster.produce(1, b"a")
    assert (cluster[2].values, cluster[2].partition.log.high_watermark) == ([b"a"], 0)
    await cluster[1].crash()
    await cluster.elect(2, isr=(1, 2))
    assert cluster[2].partition.log.high_watermark == 0
    assert (await list_offsets(cluster, 2, LATEST)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await list_offsets(cluster, 2, LATEST, version=4)).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (await list_offsets(cluster, 2, 0)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await list_offsets(cluster, 2, cluster.clock.now_ms() + 1)).error_code == 0
    assert (await list_offsets(cluster, 2, -2)).offset == 0
    assert (await list_offsets(cluster, 2, LATEST, replica=1)).offset == 1
    await cluster.register(1)
    await cluster.pass_time(2_000)
    assert (await list_offsets(cluster, 2, LATEST)).offset == 1
    assert (await list_offsets(cluster, 1, LATEST)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@played_by(run)
async def test_delete_records_waits_for_the_followers_or_times_out(cluster: Cluster) -> None:
    await cluster.elect(1)
    await cluster.produce(1, b"a", b"b")
    await cluster.pass_time(1_000)
    topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 1)])
    waiting = await cluster.send(1, DeleteRecordsRequest([topic], timeout_ms=3_000), 2)
    assert waiting() is None
    await cluster.pass_time(1_500)
    result = waiting().topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (0, 1)
    assert cluster[2].partition.log.log_start_offset == 1
    await cluster[2].crash()
    topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 2)])
    waiting = await cluster.send(1, DeleteRecordsRequest([topic], timeout_ms=3_000), 2)
    await cluster.pass_time(3_000)
    result = waiting().topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 1)
    refused = await cluster.call(1, DeleteRecordsRequest([topic], timeout_ms=0), 2)
    assert refused is not None

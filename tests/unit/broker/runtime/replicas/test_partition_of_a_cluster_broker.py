"""A partition with replicas on other brokers: what its leader and its followers do, with logs on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.brokers import BrokerLiveness, Brokers
from ottla.broker.replication.in_sync import Accepted
from ottla.broker.replication.leadership import Registration
from ottla.broker.replication.progress import FollowerFetch
from ottla.broker.replication.purgatory import Condition
from ottla.broker.runtime.replicas.partition import READ_LATER, ClusterContext, Partition
from ottla.broker.storage.partition_log import Isolation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import split_batches, stamp
from ottla.protocol.records.record import SimpleRecord
from tests.support.partition_logs import PartitionHarness, one_batch

LEADER, FOLLOWER, THIRD = 1, 2, 3
LAG_MS = 1000


class Member:
    """One broker's replica of `t-0`, to which no metadata is published yet."""

    def __init__(self, path: Path, config: LogConfig | None = None, node: int = LEADER) -> None:
        self.clock = VirtualClock()
        self.brokers = Brokers(own_epoch=node)
        self.brokers.liveness = {other: BrokerLiveness(other) for other in (LEADER, FOLLOWER, THIRD)}
        self.proposed: list[Partition] = []
        context = ClusterContext(self.brokers, self.proposed.append, lambda *_: True, LAG_MS)
        self.harness = PartitionHarness(path, self.clock, config, context=context)
        self.partition = self.harness.partitions.get("t", 0)

    def fetched_by(self, node: int, offset: int, log_start: int = 0, epoch: int = 1) -> None:
        fetch = FollowerFetch(node, offset, log_start, broker_epoch=node, leader_epoch=epoch)
        self.partition.fetched(fetch, self.partition.log.log_end_offset)

    def all_records(self) -> bytes:
        log = self.partition.log
        return log.read(log.log_start_offset, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    made = Member(tmp_path / "leader", LogConfig(min_insync_replicas=2))
    yield made
    made.harness.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Member]:
    made = Member(tmp_path / "follower", node=FOLLOWER)
    yield made
    made.harness.close()


def registered(leader_epoch: int = 1, isr: tuple[int, ...] = (LEADER, FOLLOWER), partition_epoch: int | None = None) -> Registration:
    partition_epoch = leader_epoch if partition_epoch is None else partition_epoch
    return Registration(LEADER, (LEADER, FOLLOWER, THIRD), isr, leader_epoch, partition_epoch)


def test_partition_without_metadata_has_no_leader_and_rejects_appends(member: Member) -> None:
    with pytest.raises(Rejected) as refused:
        member.partition.append(one_batch())
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_acks_all_completes_when_in_sync_followers_fetched_past_it(member: Member) -> None:
    partition = member.partition
    partition.lead(registered())
    wait = partition.when(Condition.REPLICATED, partition.append(one_batch(b"a", b"b"), acks_all=True))
    assert wait is not None
    member.fetched_by(FOLLOWER, 1)
    assert (wait.done(), partition.log.high_watermark) == (False, 1)
    member.fetched_by(FOLLOWER, 2)
    assert (wait.done(), partition.log.high_watermark) == (True, 2)


def test_too_small_an_isr_rejects_acks_all_and_coordinator_writes_before_appending(member: Member) -> None:
    partition = member.partition
    partition.lead(registered(isr=(LEADER,)))
    partition.append(one_batch())
    for append in (lambda: partition.append(one_batch(), acks_all=True), lambda: partition.append_records([SimpleRecord(b"k", b"v")])):
        with pytest.raises(Rejected) as refused:
            append()
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 0)


async def test_isr_below_min_insync_replicas_commits_nothing_and_acks_all_keeps_waiting(member: Member) -> None:
    """KIP-966, scenario 28: the ISR shrinks below min.insync.replicas between the append and the commit."""
    partition = member.partition
    partition.lead(registered())
    wait = partition.when(Condition.REPLICATED, partition.append(one_batch(), acks_all=True))
    assert wait is not None
    partition.lead(registered(isr=(LEADER,), partition_epoch=2))
    assert (wait.done(), partition.log.high_watermark) == (False, 0)


def test_retry_of_a_committed_batch_is_rejected_when_the_isr_is_too_small(member: Member) -> None:
    """Scenario 28: the ISR shrinks below min.insync.replicas between the commit and the retry."""
    partition = member.partition
    partition.lead(registered())
    info = partition.append(one_batch())
    member.fetched_by(FOLLOWER, 1)
    partition.lead(registered(isr=(LEADER,), partition_epoch=2))
    with pytest.raises(Rejected) as refused:
        partition.when(Condition.REPLICATED, info)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_lowered_min_insync_replicas_completes_pending_acks_all(member: Member) -> None:
    """Scenario 29: min.insync.replicas is lowered while acks=all requests wait."""
    partition = member.partition
    partition.lead(registered())
    wait = partition.when(Condition.REPLICATED, partition.append(one_batch(), acks_all=True))
    assert wait is not None
    partition.lead(registered(isr=(LEADER,), partition_epoch=2))
    partition.reconfigure(LogConfig(min_insync_replicas=1))
    assert wait.done()
    assert partition.log.high_watermark == 1


async def test_pending_produce_survives_a_reelection_and_a_pending_coordinator_write_does_not(member: Member) -> None:
    partition = member.partition
    partition.lead(registered())
    info = partition.append(one_batch())
    producer, coordinator = partition.when(Condition.REPLICATED, info), partition.when(Condition.COMMITTED, info)
    assert producer is not None
    assert coordinator is not None
    partition.lead(registered(2))
    assert (producer.done(), type(coordinator.exception())) == (False, Rejected)
    member.fetched_by(FOLLOWER, 1, epoch=2)
    assert producer.result() is None


async def test_leader_that_becomes_follower_fails_all_waiters(member: Member) -> None:
    partition = member.partition
    partition.lead(registered())
    info = partition.append(one_batch())
    partition.log.delete_records_before(0)
    waits = [partition.when(Condition.REPLICATED, info), partition.when(Condition.COMMITTED, info), partition.when_deleted(1)]
    assert partition.follow(Registration(FOLLOWER, (LEADER, FOLLOWER), (LEADER, FOLLOWER), 2, 2))
    for wait in waits:
        assert wait is not None
        error = wait.exception()
        assert isinstance(error, Rejected)
        assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_unchanged_leader_epoch_does_not_restart_fetching(member: Member) -> None:
    news = [Registration(FOLLOWER, (LEADER, FOLLOWER), (FOLLOWER,), epoch, partition) for epoch, partition in ((1, 1), (1, 2), (2, 3))]
    assert [member.partition.follow(registration) for registration in news] == [True, False, True]


async def test_followers_are_woken_by_appends_and_consumers_by_commits(member: Member) -> None:
    partition = member.partition
    partition.lead(registered())
    woken: list[tuple[str, int]] = []
    partition.watchers["consumer"] = lambda size: woken.append(("consumer", size))
    partition.log_end_watchers["follower"] = lambda size: woken.append(("follower", size))
    partition.append(one_batch())
    appended = ("follower", len(one_batch()))
    assert woken == [appended]
    member.fetched_by(FOLLOWER, 1)
    assert woken == [appended, ("follower", READ_LATER), ("consumer", 0)]


def test_watchers_are_notified_of_a_moved_log_start_and_a_disk_failure(member: Member) -> None:
    partition = member.partition
    partition.lead(registered(isr=(LEADER,)))
    partition.reconfigure(LogConfig())
    partition.append(one_batch())
    woken, fetcher = list[int](), list[str]()
    partition.watchers["consumer"] = partition.log_end_watchers["follower"] = woken.append
    partition.fetcher = lambda: fetcher.append("moved")
    partition.log.delete_records_before(1)
    assert (woken, fetcher) == ([READ_LATER, READ_LATER], ["moved"])
    partition.log.delete_records_before(1)
    assert len(woken) == 2, "it begins there already"
    partition.log.fail(OSError("no disk"))
    assert woken == [READ_LATER] * 4


def test_followers_watchers_are_notified_of_an_accepted_isr_change(member: Member) -> None:
    partition = member.partition
    partition.lead(registered(isr=(LEADER, FOLLOWER, THIRD)))
    partition.append(one_batch())
    member.fetched_by(FOLLOWER, 1)
    member.clock.advance(LAG_MS + 1)
    partition.maybe_shrink_isr()
    proposal = partition.replica.proposal
    assert proposal is not None
    woken: list[int] = []
    partition.log_end_watchers["follower"] = woken.append
    partition.proposal_completed(proposal, Accepted(1, 2, frozenset({LEADER, FOLLOWER})))
    assert set(woken) == {READ_LATER}


def test_lagging_follower_is_proposed_to_leave_the_isr_and_a_caught_up_one_to_join(member: Member) -> None:
    partition = member.partition
    partition.lead(registered())
    member.fetched_by(FOLLOWER, 0)
    partition.append(one_batch())
    member.clock.advance(LAG_MS + 1)
    partition.maybe_shrink_isr()
    proposal = partition.replica.proposal
    assert proposal is not None
    assert [one.node for one in proposal.members] == [LEADER]
    partition.proposal_completed(proposal, Accepted(1, 2, frozenset({LEADER})))
    member.fetched_by(FOLLOWER, 1)
    proposal = partition.replica.proposal
    assert proposal is not None
    assert proposal.members == ((LEADER, LEADER), (FOLLOWER, FOLLOWER))
    assert member.proposed == [partition, partition]


def test_an_idle_partition_keeps_its_followers_in_sync(member: Member) -> None:
    """Scenario 32: a follower that has all records stays in the ISR without writes."""
    member.partition.lead(registered())
    member.partition.append(one_batch())
    member.fetched_by(FOLLOWER, 1)
    member.clock.advance(3_600_000)
    member.partition.maybe_shrink_isr()
    assert member.proposed == []


async def test_delete_records_completes_when_every_alive_replica_has_deleted(member: Member) -> None:
    partition = member.partition
    partition.lead(registered())
    partition.append(one_batch(b"a", b"b"))
    member.fetched_by(FOLLOWER, 2)
    partition.log.delete_records_before(2)
    wait = partition.when_deleted(2)
    assert wait is not None
    member.fetched_by(FOLLOWER, 2, log_start=2)
    assert (wait.done(), partition.low_watermark()) == (False, -1)  # of the third one nothing is known
    member.brokers.liveness[THIRD] = BrokerLiveness(THIRD, fenced=True)
    partition.maybe_shrink_isr()
    await asyncio.wait_for(wait, 60)
    assert partition.low_watermark() == 2


# --- following -------------------------------------------------------------------------------------------------------------------


def follow(other: Member, leader_epoch: int = 1) -> None:
    other.partition.follow(registered(leader_epoch))


def test_follower_appends_batches_with_epochs_and_the_leaders_high_watermark(member: Member, other: Member) -> None:
    member.partition.lead(registered(3))
    member.partition.append(one_batch(b"a", b"b"))
    follow(other, 3)
    assert other.partition.append_fetched(member.all_records(), 3) == 3
    other.partition.apply_leader_offsets(1, 0)
    assert other.all_records() == member.all_records()
    assert (other.partition.log.high_watermark, other.partition.log.epochs.entries) == (1, ((3, 0),))
    other.partition.apply_leader_offsets(0, 0)
    assert other.partition.log.high_watermark == 0, "a follower's goes back with its leader's"


def test_batches_of_a_later_epoch_than_requested_are_left_for_the_next_fetch(member: Member, other: Member) -> None:
    """KAFKA-18723, scenario 10: a response that was prepared before an election may have batches of the new leader epoch."""
    member.partition.lead(registered(1))
    member.partition.append(one_batch(b"a"))
    member.partition.lead(registered(2))
    member.partition.append(one_batch(b"b"))
    follow(other, 1)
    assert other.partition.append_fetched(member.all_records(), 1) == 1
    assert other.partition.log.log_end_offset == 1


def test_empty_response_has_no_last_fetched_epoch(other: Member) -> None:
    """KAFKA-15510, scenario 9: an empty response leaves the last fetched epoch as it is."""
    follow(other)
    assert other.partition.append_fetched(b"", 1) is None


def test_follower_accepts_batches_above_max_message_bytes(member: Member, tmp_path: Path) -> None:
    """KAFKA-9617, scenario 11: max.message.bytes was lowered while the follower lagged."""
    member.partition.lead(registered())
    member.partition.append(one_batch(bytes(500)))
    small = Member(tmp_path / "small", LogConfig(max_message_bytes=100), FOLLOWER)
    follow(small)
    small.partition.append_fetched(member.all_records(), 1)
    assert small.partition.log.log_end_offset == 1
    small.harness.close()


async def test_empty_log_that_starts_inside_its_first_batch_appends_the_whole_batch(member: Member, other: Member) -> None:
    """Scenario 12: after DeleteRecords inside a batch, a new replica begins at the leader's log start offset."""
    member.partition.lead(registered())
    member.partition.append(one_batch(b"a", b"b", b"c", b"d"))
    follow(other)
    other.partition.restart(2)
    assert other.partition.append_fetched(member.all_records(), 1) == 1
    other.partition.apply_leader_offsets(4, 2)
    log = other.partition.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 4, 4)
    assert other.partition.replica.high_watermark == 4
    assert [header.base_offset for _, header in split_batches(other.all_records())] == [0]


@pytest.mark.parametrize("base", [0, 1])
def test_batch_with_an_earlier_base_offset_is_rejected(member: Member, other: Member, base: int) -> None:
    member.partition.lead(registered())
    member.partition.append(one_batch(b"a", b"b"))
    follow(other)
    other.partition.append_fetched(member.all_records(), 1)
    head, rest = stamp(member.all_records(), base, 1)
    with pytest.raises(Rejected) as refused:
        other.partition.append_fetched(head + bytes(rest), 1)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert other.partition.log.log_end_offset == 2


def test_batches_before_a_damaged_one_are_appended_and_fetching_continues_there(member: Member, other: Member) -> None:
    member.partition.lead(registered())
    for value in (b"a", b"b"):
        member.partition.append(one_batch(value))
    follow(other)
    with pytest.raises(Rejected):
        other.partition.append_fetched(member.all_records()[:-1] + b"\xff", 1)
    assert other.partition.log.log_end_offset == other.partition.replica.log_end == 1


@pytest.mark.parametrize(("recovering", "election"), [(True, "unclean"), (False, "clean, or its leader has recovered since")])
def test_truncation_below_the_high_watermark_logs_the_leader_epoch_and_election(
    member: Member, other: Member, caplog: pytest.LogCaptureFixture, election: str, *, recovering: bool
) -> None:
    member.partition.lead(registered())
    for value in (b"a", b"b"):
        member.partition.append(one_batch(value))
    follow(other)
    other.partition.append_fetched(member.all_records(), 1)
    other.partition.apply_leader_offsets(2, 0)
    other.partition.follow(registered(6)._replace(leader=THIRD, recovering=recovering))
    other.partition.truncate(2)
    assert caplog.messages == []
    other.partition.truncate(1)
    (message,) = caplog.messages
    assert message == (
        "t-0 is cut at 1, below its high watermark 2: broker 3 lacks that, its leader in epoch 6. "
        f"The metadata calls the election {election}"
    )


def test_truncation_lowers_the_high_watermark_and_wakes_waiting_fetches(member: Member, other: Member) -> None:
    member.partition.lead(registered())
    for value in (b"a", b"b"):
        member.partition.append(one_batch(value))
    follow(other)
    other.partition.append_fetched(member.all_records(), 1)
    other.partition.apply_leader_offsets(2, 0)
    woken: list[int] = []
    other.partition.watchers["consumer"] = woken.append
    other.partition.truncate(1)
    assert (other.partition.log.high_watermark, other.partition.replica.high_watermark, woken) == (1, 1, [READ_LATER, 0])
    other.partition.restart(7)
    assert (other.partition.log.high_watermark, other.partition.replica.high_watermark) == (7, 7)


async def test_when_all_committed_waits_for_the_records_found_at_election_in_its_epoch(member: Member) -> None:
    partition = member.partition
    partition.lead(registered())
    assert partition.when_all_committed() is None
    partition.append(one_batch(b"a", b"b"), acks_all=True)
    partition.lead(registered(2))
    found = partition.when_all_committed()
    assert found is not None
    member.fetched_by(FOLLOWER, 2, epoch=2)
    assert found.done()
    assert partition.when_all_committed() is None
    partition.append(one_batch(b"c"), acks_all=True)
    lost = partition.when_all_committed()
    assert lost is not None
    partition.lead(registered(3))
    with pytest.raises(Rejected):
        await lost


def test_partition_is_checked_for_lag_from_an_append_until_all_in_sync_replicas_have_it(member: Member) -> None:
    partition, behind = member.partition, member.harness.partitions.shrink_candidates
    partition.lead(registered())
    partition.append(one_batch())
    partition.maybe_shrink_isr()
    assert list(behind) == [partition], "the follower lacks the record"
    member.fetched_by(FOLLOWER, 1)
    partition.maybe_shrink_isr()
    assert not behind
    partition.append(one_batch())
    assert list(behind) == [partition]
    member.clock.advance(LAG_MS + 1)
    partition.maybe_shrink_isr()
    proposal = partition.replica.proposal
    assert proposal is not None
    partition.proposal_completed(proposal, Accepted(1, 2, frozenset({LEADER})))
    partition.maybe_shrink_isr()
    assert not behind, "nobody else is in sync"


def test_follower_with_a_truncated_log_is_checked_for_lag_again(member: Member) -> None:
    partition, behind = member.partition, member.harness.partitions.shrink_candidates
    partition.lead(registered())
    partition.append(one_batch())
    member.fetched_by(FOLLOWER, 1)
    partition.maybe_shrink_isr()
    assert not behind
    member.fetched_by(FOLLOWER, 0)
    assert list(behind) == [partition]
    member.harness.partitions.remove("t", 0)
    assert not behind


def delete_records_that_a_follower_has(member: Member) -> asyncio.Future[None]:
    partition = member.partition
    partition.lead(registered())
    partition.append(one_batch())
    member.fetched_by(FOLLOWER, 1)
    partition.log.delete_records_before(1)
    done = partition.when_deleted(1)
    assert done is not None
    return done


async def test_partition_is_checked_while_delete_records_waits_for_followers(member: Member) -> None:
    partition, behind = member.partition, member.harness.partitions.shrink_candidates
    done = delete_records_that_a_follower_has(member)
    partition.maybe_shrink_isr()
    assert list(behind) == [partition]
    member.brokers.liveness = {LEADER: BrokerLiveness(LEADER)}
    partition.maybe_shrink_isr()
    assert done.done(), "no other replica lives"
    assert not behind


async def test_delete_records_completes_when_the_replicas_that_it_waits_for_are_removed(member: Member) -> None:
    partition, behind = member.partition, member.harness.partitions.shrink_candidates
    done = delete_records_that_a_follower_has(member)
    partition.lead(Registration(LEADER, (LEADER,), (LEADER,), 2, 2))
    assert done.done()
    partition.maybe_shrink_isr()
    assert not behind

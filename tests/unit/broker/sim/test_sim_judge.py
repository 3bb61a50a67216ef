"""The judge of logs and of silent brokers: committed records that an unclean election may lose, and when a broker must be fenced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.cluster.image import ELR_VERSION, ResourceType
from ottla.broker.cluster.metadata_records import (
    NO_LEADER,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.broker.core.log_config import INT64_MAX, LogConfig
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.sim.loop import Process, SimLoop
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.metadata_judge import UNCLEAN_SETTING
from ottla.broker.sim.sim_cluster import SYNC_US, SimCluster, run, sleep
from ottla.broker.sim.sim_judge import ClusterChecker
from ottla.broker.sim.violation import Violation
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.partition_log import Isolation, Origin
from tests.support.metadata_images import level, made_of
from tests.support.partition_logs import TOPIC_ID, one_batch

NOW_MS = 1_700_000_000_000


class Replica:
    """A broker with a replica of `t-0`: the log is real, and the test sets its leader."""

    def __init__(self, node: int) -> None:
        self.log = LogDir.open(Path(f"/{node}"), BrokerSettings(), NOW_MS, files=MemoryFiles()).create_log("t", 0, TOPIC_ID, LogConfig())
        self.replica = SimpleNamespace(leads=False, leader_epoch=0, high_watermark=0)
        self.node_id, self.serves, self.topic, self.index = node, True, "t", 0
        self.broker = SimpleNamespace(services=SimpleNamespace(partitions=self))

    def __iter__(self) -> Any:
        return iter([self])

    def by_topic_id(self, topic_id: bytes) -> Any:
        return {0: self}

    def leads(self, epoch: int, *values: bytes) -> None:
        """Make this the leader in a new epoch; append each value as a batch, and commit them."""
        self.log.become_leader(epoch)
        self.replica.leads, self.replica.leader_epoch = True, epoch
        for value in values:
            self.log.append(one_batch(value), origin=Origin.CLIENT, leader_epoch=epoch, now_ms=NOW_MS)
        self.replica.high_watermark = self.log.log_end_offset

    def follows(self, leader: Replica) -> None:
        """Make this a follower; append all that the leader's log has beyond its own end."""
        self.replica.leads = False
        data = leader.log.read(self.log.log_end_offset, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records
        self.log.append(bytes(data), origin=Origin.REPLICATION, leader_epoch=leader.replica.leader_epoch, now_ms=NOW_MS)


class Harness:
    """Two replicas on brokers, their controller, and the judge."""

    def __init__(self, *, unclean: bool = True) -> None:
        self.first: Any = Replica(1)
        self.second: Any = Replica(2)
        self.controller: Any = SimpleNamespace(can_commit=False, role=None)
        cluster: Any = SimpleNamespace(controller=self.controller, loop=SimpleNamespace(now_us=0), nodes={1: self.first, 2: self.second})
        self.checker = ClusterChecker(cluster)
        made = PartitionRecord(0, TOPIC_ID, [1, 2], [1, 2], leader=1, leader_epoch=0, partition_epoch=0, directories=[bytes(16)] * 2)
        allowed = [ConfigRecord(ResourceType.TOPIC, "t", UNCLEAN_SETTING, "true")] * unclean
        self.image = made_of(level(30), TopicRecord("t", TOPIC_ID), made, *allowed)
        self.publishes()

    def decides(self, isr: list[int], leader: int) -> int:
        """Let the controller change the ISR and the leader; return the new leader epoch."""
        self.publishes(PartitionChangeRecord(0, TOPIC_ID, isr=isr, leader=leader))
        return self.image.topics[TOPIC_ID].partitions[0].leader_epoch

    def publishes(self, *records: MetadataRecord) -> None:
        self.image = made_of(*records, image=self.image)
        self.controller.on_committed(self.image)

    def both_have_one_record_and_the_second_goes_on_alone(self) -> None:
        """Both replicas have one record. Then broker 2, alone in the ISR, commits three more and dies before broker 1 has them."""
        self.first.leads(0, b"a")
        self.second.follows(self.first)
        self.checker.check()
        self.first.replica.leads = False
        self.second.leads(self.decides([2], 2), b"b", b"c", b"d")
        self.checker.check()
        self.second.replica.leads = False

    def the_first_is_elected_uncleanly(self) -> None:
        """Let broker 1 be elected uncleanly, and commit other records at the same offsets."""
        self.first.leads(self.decides([1], 1), b"x", b"y")
        self.checker.check()
        self.first.replica.leads = False


def test_second_unclean_election_may_restore_records_lost_by_the_first() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.the_first_is_elected_uncleanly()
    assert harness.checker.lost_from(harness.first) == 1
    harness.second.leads(harness.decides([2], 2), b"e")
    harness.checker.check()
    assert (harness.checker.lost_from(harness.second), harness.checker.unclean_elections) == (1, 2)


def test_restored_records_are_committed_again_and_must_survive_clean_elections() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.the_first_is_elected_uncleanly()
    harness.second.leads(harness.decides([2], 2), b"e")
    harness.checker.check()
    harness.decides([2, 1], 2)
    with pytest.raises(Violation, match=r"node 1 joins the ISR of t-0 with log end 3; committed is up to 5"):
        harness.checker.check()
    harness.second.replica.leads = False
    harness.first.leads(harness.decides([1], 1))
    with pytest.raises(Violation, match=r"node 1 leads t-0 in epoch 5 without the committed \[1, 2, 3, 4\]"):
        harness.checker.check()


def test_cancelled_reassignment_of_an_isr_of_adding_replicas_is_an_unclean_election() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.publishes(PartitionChangeRecord(0, TOPIC_ID, adding_replicas=[2]))
    harness.publishes(PartitionChangeRecord(0, TOPIC_ID, isr=[1], replicas=[1], adding_replicas=[], leader=NO_LEADER))
    harness.first.leads(harness.decides([1], 1), b"x")
    harness.checker.check()
    assert (harness.checker.lost_from(harness.first), harness.checker.unclean_elections) == (1, 1)


def test_records_of_one_epoch_must_not_differ_after_an_unclean_election() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.first.log = Replica(1).log
    harness.first.log.append(one_batch(b"other"), origin=Origin.CLIENT, leader_epoch=0, now_ms=NOW_MS)
    with pytest.raises(Violation, match=r"node 1 leads t-0 in epoch 2 without the committed \[0\]"):
        harness.the_first_is_elected_uncleanly()


def test_no_record_may_be_lost_without_unclean_elections() -> None:
    harness = Harness(unclean=False)
    harness.both_have_one_record_and_the_second_goes_on_alone()
    with pytest.raises(Violation, match=r"t-0: an unclean election, which the topic does not allow, made node 1 the leader"):
        harness.the_first_is_elected_uncleanly()
    with pytest.raises(Violation, match=r"node 1 leads t-0 in epoch 2 without the committed \[1, 2, 3\]"):
        harness.checker.check()
    assert harness.checker.lost_from(harness.first) == INT64_MAX


def both_have_one_record_and_the_second_leads(*, elr: bool = False) -> Harness:
    """Return a cluster without unclean elections in which both replicas have the only record, and broker 2 is alone in the ISR."""
    harness = Harness(unclean=False)
    harness.publishes(*[FeatureLevelRecord(ELR_VERSION, 1)] * elr)
    harness.first.leads(0, b"a")
    harness.second.follows(harness.first)
    harness.checker.check()
    harness.first.replica.leads = False
    harness.second.leads(harness.decides([2], 2))
    harness.checker.check()
    return harness


def test_an_unclean_election_that_loses_nothing_is_a_violation_where_it_is_not_allowed() -> None:
    harness = both_have_one_record_and_the_second_leads()
    harness.decides([1], 1)
    with pytest.raises(Violation, match=r"t-0: an unclean election, which the topic does not allow, made node 1 the leader"):
        harness.checker.check()


def test_cancelling_a_reassignment_uncleanly_is_a_violation_where_unclean_elections_are_not_allowed() -> None:
    harness = both_have_one_record_and_the_second_leads()
    harness.publishes(PartitionChangeRecord(0, TOPIC_ID, adding_replicas=[2]))
    harness.publishes(PartitionChangeRecord(0, TOPIC_ID, isr=[1], replicas=[1], adding_replicas=[], leader=NO_LEADER))
    with pytest.raises(Violation, match=r"t-0: an unclean election, which the topic does not allow, made node -1 the leader"):
        harness.checker.check()


def test_a_replica_that_joins_the_isr_and_is_elected_in_one_image_is_elected_cleanly() -> None:
    harness = both_have_one_record_and_the_second_leads()
    harness.publishes(PartitionChangeRecord(0, TOPIC_ID, isr=[2, 1]), PartitionChangeRecord(0, TOPIC_ID, isr=[1], leader=1))
    harness.checker.check()


def test_a_replica_that_joins_the_isr_and_ends_the_reassignment_of_its_leader_is_elected_cleanly() -> None:
    harness = both_have_one_record_and_the_second_leads()
    harness.publishes(PartitionChangeRecord(0, TOPIC_ID, removing_replicas=[2]))
    harness.publishes(PartitionChangeRecord(0, TOPIC_ID, isr=[1], replicas=[1], removing_replicas=[], leader=1))
    harness.checker.check()


def test_an_unclean_election_during_a_reassignment_is_a_violation_where_it_is_not_allowed() -> None:
    harness = both_have_one_record_and_the_second_leads()
    harness.publishes(PartitionChangeRecord(0, TOPIC_ID, removing_replicas=[2]))
    harness.decides([1], 1)
    with pytest.raises(Violation, match=r"t-0: an unclean election, which the topic does not allow, made node 1 the leader"):
        harness.checker.check()


@pytest.mark.parametrize(("last_known", "cleared"), [([1], False), ([2], True)])
def test_the_last_known_leader_and_any_replica_where_none_is_eligible_may_be_elected(last_known: list[int], cleared: bool) -> None:
    harness = both_have_one_record_and_the_second_leads(elr=True)
    harness.publishes(PartitionChangeRecord(0, TOPIC_ID, isr=[], leader=NO_LEADER, last_known_elr=last_known))
    harness.publishes(*[ConfigRecord(ResourceType.TOPIC, "t", "min.insync.replicas", "1"), ClearElrRecord("t")] * cleared)
    harness.decides([1], 1)
    harness.checker.check()


def test_another_replica_than_the_last_known_leader_may_not_be_elected() -> None:
    harness = both_have_one_record_and_the_second_leads(elr=True)
    harness.publishes(PartitionChangeRecord(0, TOPIC_ID, isr=[], leader=NO_LEADER, last_known_elr=[2]))
    harness.decides([1], 1)
    with pytest.raises(Violation, match=r"t-0: an unclean election, which the topic does not allow, made node 1 the leader"):
        harness.checker.check()


def cut(harness: Harness, node: Any, offset: int, epoch: int) -> None:
    """Let the node become a follower in this leader epoch and truncate its log to `offset`; then let the judge look."""
    node.replica.leads, node.replica.leader_epoch = False, epoch
    node.log.truncate_to(offset, NOW_MS)
    node.replica.high_watermark = min(node.replica.high_watermark, offset)
    harness.checker.check()


def test_follower_may_be_truncated_below_its_high_watermark_once_after_an_unclean_election() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.the_first_is_elected_uncleanly()
    cut(harness, harness.second, 1, 2)
    assert harness.checker.truncations_below_mark == 1
    harness.second.follows(harness.first)
    harness.second.replica.high_watermark = 3
    harness.checker.check()
    with pytest.raises(Violation, match=r"node 2: t-0 is truncated to 1 in epoch 2, below its high watermark 3 of epoch 2, without"):
        cut(harness, harness.second, 1, 2)


def test_follower_may_be_truncated_above_its_high_watermark() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.first.follows(harness.second)
    harness.first.replica.high_watermark = 2
    harness.checker.check()
    cut(harness, harness.first, 2, 1)
    assert harness.checker.truncations_below_mark == 0


def test_restarted_broker_may_have_lost_unsynced_records() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    again = Replica(2)
    harness.second.broker.services.partitions = again
    harness.checker.check()
    assert harness.checker.truncations_below_mark == 0


class SilentBroker:
    """Broker 1 has no process and is never fenced; the judge looks every 10 ms. The controller's process does nothing by itself."""

    def __init__(self) -> None:
        self.loop = SimLoop()  # type: ignore[abstract] # the other methods of a loop are not used
        self.cluster = SimCluster(self.loop, Random(1), 1)
        self.checker = ClusterChecker(self.cluster)
        self.controller = self.cluster.controller
        self.controller.image = made_of(level(30), RegisterBrokerRecord(1, broker_epoch=1, fenced=False))
        self.controller.process, self.controller.serves = Process(self.controller.host), True
        self.disk = self.controller.threads()(1, "flush")

    def stalls(self, ms: int) -> None:
        """Stall the controller's disk for a step of `ms`, and end the stall at once."""
        self.controller.sync_us = (ms * 1000, ms * 1000)
        self.disk.submit(lambda: None)
        self.controller.sync_us = SYNC_US

    def is_reported_after_ms(self, begin: Callable[[], object]) -> int:
        """Return when the judge reports the broker."""

        async def judge() -> int:
            begin()
            while self.loop.now_us < 60_000_000:
                try:
                    self.checker.check()
                except Violation as violation:
                    assert str(violation) == "node1 has been silent for 6 s, but is not fenced"  # noqa: PT017 # the time counts as well
                    return self.loop.now_us // 1000
                await sleep(self.loop, 10)
            return -1

        found: int = run(self.loop, judge())
        return found


def test_silent_broker_must_be_fenced_after_its_session() -> None:
    assert SilentBroker().is_reported_after_ms(lambda: None) == 6_010


def test_silent_broker_need_not_be_fenced_before_a_sync_ends_that_began_while_the_controllers_disk_was_stalled() -> None:
    silent = SilentBroker()
    assert silent.is_reported_after_ms(lambda: silent.stalls(7_000)) == 13_010


def test_silent_broker_must_be_fenced_although_the_controllers_disk_is_in_use() -> None:
    silent = SilentBroker()

    def use() -> None:
        silent.disk.submit(lambda: silent.loop.call_in_us(100_000, use))

    assert silent.is_reported_after_ms(use) == 6_010


def test_a_stalled_sync_of_a_dead_controller_does_not_excuse_its_successor() -> None:
    silent = SilentBroker()

    async def restart() -> tuple[bool, bool]:
        silent.stalls(50_000)
        before = silent.controller.can_commit
        silent.controller.kill()
        silent.controller.start()
        await sleep(silent.loop, 500)
        return before, silent.controller.can_commit

    assert run(silent.loop, restart()) == (False, True)


def restarts(harness: Harness, node: Any, epoch: int) -> Any:
    """Replace the node's process by one with the same log and high watermark; return its replica, a follower in this leader epoch."""
    again = Replica(node.node_id)
    again.log, again.replica.leader_epoch = node.log, epoch
    again.replica.high_watermark = node.replica.high_watermark
    node.broker.services.partitions = again
    harness.checker.check()
    return again


def test_restarted_broker_may_be_truncated_after_an_unclean_election_during_its_absence() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.the_first_is_elected_uncleanly()
    again = restarts(harness, harness.second, 2)
    cut(harness, again, 1, 2)
    assert harness.checker.truncations_below_mark == 1
    again.follows(harness.first)
    again.replica.high_watermark = 3
    harness.checker.check()
    with pytest.raises(Violation, match=r"node 2: t-0 is truncated to 1 in epoch 2, below its high watermark 3 of epoch 2, without"):
        cut(harness, again, 1, 2)


def test_restarted_broker_may_not_be_truncated_if_its_records_are_of_the_leader_elected_uncleanly() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.the_first_is_elected_uncleanly()
    cut(harness, harness.second, 1, 2)
    harness.second.follows(harness.first)
    harness.second.replica.high_watermark = 3
    harness.checker.check()
    again = restarts(harness, harness.second, 2)
    with pytest.raises(Violation, match=r"node 2: t-0 is truncated to 1 in epoch 2, below its high watermark 3 of epoch 2, without"):
        cut(harness, again, 1, 2)


def test_restarted_broker_may_not_be_truncated_without_an_unclean_election() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    again = restarts(harness, harness.second, 2)
    with pytest.raises(Violation, match=r"node 2: t-0 is truncated to 1 in epoch 2, below its high watermark 4 of epoch 1, without"):
        cut(harness, again, 1, 2)


def test_follower_may_be_truncated_in_two_steps_after_an_unclean_election() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.the_first_is_elected_uncleanly()
    cut(harness, harness.second, 2, 2)
    cut(harness, harness.second, 1, 2)
    assert harness.checker.truncations_below_mark == 2


def test_high_watermark_learned_just_before_an_unclean_election_is_of_the_epoch_before_it() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.second.log.append(one_batch(b"late"), origin=Origin.CLIENT, leader_epoch=1, now_ms=NOW_MS)
    harness.second.replica.high_watermark, harness.second.replica.leader_epoch = 5, 2
    harness.the_first_is_elected_uncleanly()
    cut(harness, harness.second, 1, 2)
    assert harness.checker.truncations_below_mark == 1


def test_follower_may_not_be_truncated_below_what_the_leader_elected_uncleanly_has_reported() -> None:
    harness = Harness()
    harness.both_have_one_record_and_the_second_goes_on_alone()
    harness.first.follows(harness.second)
    harness.decides([1], 1)
    harness.second.leads(harness.decides([2], 2))
    harness.first.replica.leader_epoch = 3
    harness.checker.check()
    harness.first.replica.high_watermark = 4
    harness.checker.check()
    with pytest.raises(Violation, match=r"node 1: t-0 is truncated to 3 in epoch 3, below its high watermark 4 of epoch 3, without"):
        cut(harness, harness.first, 3, 3)

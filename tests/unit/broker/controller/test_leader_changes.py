from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.cluster.image import ELR_VERSION, LOST, MIGRATING
from ottla.broker.cluster.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.controller.leader_changes import (
    broker_fenced,
    broker_restarted,
    broker_shutting_down,
    broker_unfenced,
    broker_unregistered,
    directories_failed,
    leads_any_partition,
    replicas_lost,
)
from ottla.broker.core.effects import Effects
from tests.support.controllers import LiveController, directory, replicas


def cluster(*, elr: bool = False, directories: int = 1) -> LiveController:
    """A controller with brokers 1, 2 and 3."""
    live = LiveController(features={ELR_VERSION: 1} if elr else {})
    for broker_id in (1, 2, 3):
        live.add_broker(broker_id, directories=directories)
    return live


def carry_out(live: LiveController, records: Sequence[MetadataRecord]) -> Sequence[MetadataRecord]:
    live.run(Effects(records, None))
    return records


def kinds(records: Sequence[MetadataRecord]) -> list[type]:
    return [type(record) for record in records]


def test_fencing_removes_leaderships_and_isr_before_the_registration_change() -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2, 3), replicas(2, 3, 1), replicas(2, 3))
    records = carry_out(live, broker_fenced(live.state, 1))
    assert kinds(records) == [PartitionChangeRecord, PartitionChangeRecord, BrokerRegistrationChangeRecord]
    assert [(live.partition("a", index).leader, live.partition("a", index).isr) for index in (0, 1, 2)] == [
        (2, (2, 3)),
        (2, (2, 3)),
        (2, (2, 3)),
    ]
    assert live.broker(1).fenced


def test_only_partitions_that_lose_their_leader_start_a_leader_epoch() -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2), replicas(2, 1))
    carry_out(live, broker_fenced(live.state, 1))
    assert [live.partition("a", index).leader_epoch for index in (0, 1)] == [1, 0]


def test_fencing_the_last_in_sync_broker_leaves_no_leader_until_it_returns() -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2, isr=(1,)))
    carry_out(live, broker_fenced(live.state, 1))
    assert (live.partition("a").leader, live.partition("a").isr) == (NO_LEADER, (1,))
    records = carry_out(live, broker_unfenced(live.state, 1))
    assert kinds(records) == [BrokerRegistrationChangeRecord, PartitionChangeRecord]
    assert (live.partition("a").leader, live.partition("a").isr) == (1, (1,))


def test_an_unfenced_broker_takes_no_existing_leadership() -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2))
    carry_out(live, broker_fenced(live.state, 1))
    assert kinds(carry_out(live, broker_unfenced(live.state, 1))) == [BrokerRegistrationChangeRecord]


@pytest.mark.parametrize("resource", [(2, "a"), (4, ""), (4, "3000")])
def test_a_topic_with_unclean_election_is_led_by_any_alive_replica(resource: tuple[int, str]) -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2, isr=(1,)))
    live.write(ConfigRecord(*resource, "unclean.leader.election.enable", "true"))
    carry_out(live, broker_fenced(live.state, 1))
    now = live.partition("a")
    assert (now.leader, now.isr, now.leader_recovery_state) == (2, (2,), 1)


def test_a_controlled_shutdown_moves_leaders_and_is_recorded_once() -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2), replicas(1))
    records = carry_out(live, broker_shutting_down(live.state, 1))
    assert kinds(records) == [BrokerRegistrationChangeRecord, PartitionChangeRecord, PartitionChangeRecord]
    assert [live.partition("a", index).leader for index in (0, 1)] == [2, NO_LEADER]
    assert broker_shutting_down(live.state, 1) == [], "all that could be handed over was"


def test_a_broker_in_controlled_shutdown_is_not_elected() -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2, 3))
    carry_out(live, broker_shutting_down(live.state, 2))
    carry_out(live, broker_fenced(live.state, 1))
    assert live.partition("a").leader == 3


def test_unregistering_removes_the_broker_from_every_isr_first() -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2))
    epoch = live.broker(1).epoch
    records = carry_out(live, broker_unregistered(live.state, 1))
    assert records[-1] == UnregisterBrokerRecord(1, epoch)
    assert (live.partition("a").leader, live.partition("a").isr, 1 in live.state.image.brokers) == (2, (2,), False)


def test_a_restart_without_eligible_leader_replicas_equals_fencing() -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2))
    clean = broker_restarted(live.state, 1, cleanly=True)
    assert clean == broker_restarted(live.state, 1, cleanly=False)
    carry_out(live, clean)
    assert (live.partition("a").leader, live.partition("a").isr) == (2, (2,))


@pytest.mark.parametrize(("cleanly", "eligible"), [(True, (1,)), (False, ())])
def test_only_a_clean_restart_keeps_a_broker_in_the_elr(cleanly: bool, eligible: tuple[int, ...]) -> None:
    live = cluster(elr=True)
    live.write(ConfigRecord(4, "", "min.insync.replicas", "2"))
    live.add_topic("a", replicas(1, 2))
    carry_out(live, broker_restarted(live.state, 1, cleanly=cleanly))
    assert (live.partition("a").isr, live.partition("a").elr) == ((2,), eligible)


def test_an_unclean_restart_removes_a_broker_from_the_elr() -> None:
    live = cluster(elr=True)
    live.write(ConfigRecord(4, "", "min.insync.replicas", "2"))
    live.add_topic("a", replicas(1, 2))
    carry_out(live, broker_fenced(live.state, 1))
    assert live.partition("a").elr == (1,)
    carry_out(live, broker_restarted(live.state, 1, cleanly=False))
    assert live.partition("a").elr == ()


def test_an_unfenced_elr_member_leads_if_the_isr_is_empty() -> None:
    live = cluster(elr=True)
    live.write(ConfigRecord(4, "", "min.insync.replicas", "2"))
    live.add_topic("a", replicas(1, 2))
    carry_out(live, broker_fenced(live.state, 1))
    carry_out(live, broker_fenced(live.state, 2))
    assert (live.partition("a").leader, live.partition("a").isr, set(live.partition("a").elr)) == (NO_LEADER, (), {1, 2})
    carry_out(live, broker_unfenced(live.state, 1))
    assert (live.partition("a").leader, live.partition("a").isr, live.partition("a").elr) == (1, (1,), (2,))


def test_min_insync_replicas_is_limited_to_the_replica_count() -> None:
    live = cluster(elr=True)
    live.add_topic("a", replicas(1, 2, isr=(1,)))
    live.write(ConfigRecord(2, "a", "min.insync.replicas", "5"))
    live.add_topic("b", replicas(1))
    live.write(ConfigRecord(2, "b", "min.insync.replicas", "5"))
    carry_out(live, broker_fenced(live.state, 1))
    assert (live.partition("a").elr, live.partition("b").elr) == ((1,), (1,))


def test_only_replicas_in_a_failed_directory_leave_the_isr() -> None:
    live = cluster(directories=2)
    live.add_topic("a", replicas(1, 2), replicas(1, 2)._replace(directories=(directory(11), directory(20))))
    records = carry_out(live, directories_failed(live.state, 1, [directory(11), directory(99)]))
    assert kinds(records) == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
    assert [live.partition("a", index).leader for index in (0, 1)] == [1, 2]
    assert live.broker(1).directories == (directory(10),)
    assert directories_failed(live.state, 1, [directory(11)]) == [], "that is known already"


@pytest.mark.parametrize(("where", "leader"), [(directory(10), 1), (MIGRATING, 1), (LOST, 2), (directory(99), 2)])
def test_a_replica_in_an_offline_directory_is_not_elected(where: bytes, leader: int) -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2, 3, leader=3)._replace(directories=(where, directory(20), directory(30))))
    carry_out(live, broker_fenced(live.state, 3))
    assert live.partition("a").leader == leader


def test_only_the_given_lost_replicas_lose_their_leadership() -> None:
    live = cluster()
    topic_id = live.add_topic("a", replicas(1, 2), replicas(1, 2))
    carry_out(live, replicas_lost(live.state, 1, {(topic_id, 1)}))
    assert [live.partition("a", index).leader for index in (0, 1)] == [1, 2]


def test_a_broker_with_one_leadership_leads_partitions() -> None:
    live = cluster()
    live.add_topic("a", replicas(1, 2), replicas(2, 1))
    assert [leads_any_partition(live.state, broker_id) for broker_id in (1, 2, 3)] == [True, True, False]


def test_partition_changes_are_ordered_by_topic_and_index() -> None:
    live = cluster()
    ids = [live.add_topic(name, replicas(1, 2), replicas(1, 2)) for name in ("b", "a")]
    changes = [record for record in broker_fenced(live.state, 1) if isinstance(record, PartitionChangeRecord)]
    assert [(record.topic_id, record.partition_id) for record in changes] == [(topic_id, index) for topic_id in ids for index in (0, 1)]

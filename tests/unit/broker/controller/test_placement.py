from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from ottla.broker.cluster.image import ELR_VERSION, MIGRATING, UNASSIGNED
from ottla.broker.cluster.metadata_records import BrokerRegistrationChangeRecord, ClearElrRecord, MetadataRecord, PartitionRecord
from ottla.broker.controller.create_topics import MorePartitions, NewTopic, create_partitions, create_topics
from ottla.broker.controller.heartbeats import heartbeat
from ottla.broker.controller.placement import Placement, check_assignment, default_directory
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from tests.support.controllers import LiveController, directory, replicas

ID = b"i" * 16


def cluster(*fenced: int, elr: bool = False) -> LiveController:
    """A controller with brokers 1, 2 and 3, of which `fenced` are fenced."""
    live = LiveController(features={ELR_VERSION: 1} if elr else {})
    for broker_id in (1, 2, 3):
        live.add_broker(broker_id, fenced=broker_id in fenced)
    return live


def create(live: LiveController, *topics: NewTopic) -> tuple[Sequence[MetadataRecord], Sequence[Rejected | None]]:
    """Create topics; return the written records, and each topic's error or None."""
    effects = create_topics(live.state.catalog, topics, Placement.in_cluster(live.state), lambda _: None, lambda: ID)
    live.run(effects)
    return effects.records, [created.error for created in effects.response]


def grow(live: LiveController, wanted: MorePartitions) -> Rejected | None:
    ((_, error),) = live.run(create_partitions(live.state.catalog, [wanted], Placement.in_cluster(live.state)))
    return error


@pytest.mark.parametrize(("directories", "where"), [(0, MIGRATING), (1, directory(10)), (2, UNASSIGNED)])
def test_a_new_replica_gets_its_brokers_only_directory(directories: int, where: bytes) -> None:
    live = LiveController()
    assert default_directory(live.add_broker(1, directories=directories)) == where


def test_a_new_replica_of_an_unknown_broker_is_unassigned() -> None:
    assert default_directory(None) == UNASSIGNED


def test_below_metadata_version_17_no_replica_has_a_directory() -> None:
    live = LiveController(level=16)
    live.add_broker(1, directories=0)
    create(live, NewTopic("t", 1, 1))
    assert live.partition("t").directories == (MIGRATING,)


def test_a_new_topics_replicas_are_spread_over_the_brokers() -> None:
    live = cluster()
    create(live, NewTopic("t", 6, 2))
    placed = [live.partition("t", index) for index in range(6)]
    assert all(partition.isr == partition.replicas and partition.leader == partition.replicas[0] for partition in placed)
    assert {partition.leader for partition in placed} == {1, 2, 3}
    assert all(partition.directories == tuple(directory(10 * replica) for replica in partition.replicas) for partition in placed)


def test_only_active_replicas_of_a_new_topic_are_in_sync() -> None:
    live = cluster(2)
    live.write(BrokerRegistrationChangeRecord(3, live.broker(3).epoch, in_controlled_shutdown=1))
    create(live, NewTopic("t", assignments=[(0, [2, 3, 1])]))
    assert (live.partition("t").isr, live.partition("t").leader) == ((1,), 1)


def test_a_topic_without_counts_uses_the_controllers_defaults() -> None:
    live = cluster()
    live.state.settings.num_partitions, live.state.settings.default_replication_factor = 2, 3
    create(live, NewTopic("t"))
    assert [len(live.partition("t", index).replicas) for index in (0, 1)] == [3, 3]


@pytest.mark.parametrize(
    ("wanted", "code", "text"),
    [
        (
            NewTopic("t", 1, 4),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because only 3 broker(s) are"
            " registered or some brokers have all their log directories cordoned.",
        ),
        (
            NewTopic("t", assignments=[(0, [1, 9])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            NewTopic("t", assignments=[(0, [2, 1, 2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 2 more than once.",
        ),
        (
            NewTopic("t", assignments=[(0, [1, 2]), (1, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with previous partitions,"
            " which have 2 replica(s).",
        ),
        (
            NewTopic("t", assignments=[(0, [3])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown.",
        ),
    ],
)
def test_an_impossible_placement_is_refused_with_kafkas_message(wanted: NewTopic, code: ErrorCode, text: str) -> None:
    records, (error,) = create(cluster(3), wanted)
    assert error is not None
    assert (error.code, error.message, list(records)) == (code, text, [])


def test_no_topic_is_created_if_every_broker_shuts_down() -> None:
    live = cluster(3)
    for broker_id in (1, 2):
        live.write(BrokerRegistrationChangeRecord(broker_id, live.broker(broker_id).epoch, in_controlled_shutdown=1))
    _, (error,) = create(live, NewTopic("t", 1, 1))
    assert error is not None
    assert error.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_broker_in_controlled_shutdown_gets_no_new_replica() -> None:
    live = cluster()
    live.add_topic("led", replicas(3, 1))
    going = BrokerHeartbeatRequest(3, live.broker(3).epoch, live.next_offset, want_shut_down=True)
    live.run(heartbeat(live.state, going))
    _, (error,) = create(live, NewTopic("t", 1, 3))
    assert error is not None
    live.write(BrokerRegistrationChangeRecord(3, live.broker(3).epoch, fenced=1))
    live.run(heartbeat(live.state, going))
    _, (error,) = create(live, NewTopic("t", 1, 3))
    assert error is None
    assert (live.partition("t").replicas[2], set(live.partition("t").isr)) == (3, {1, 2})


def test_a_broker_with_only_cordoned_directories_gets_no_new_replica() -> None:
    live = cluster()
    live.write(BrokerRegistrationChangeRecord(1, live.broker(1).epoch, cordoned_log_dirs=[directory(10)]))
    live.write(BrokerRegistrationChangeRecord(2, live.broker(2).epoch, cordoned_log_dirs=[]))
    create(live, NewTopic("t", 20, 2))
    assert {replica for index in range(20) for replica in live.partition("t", index).replicas} == {2, 3}


def test_a_manual_assignment_must_not_name_a_broker_with_only_cordoned_directories() -> None:
    live = cluster()
    live.write(BrokerRegistrationChangeRecord(1, live.broker(1).epoch, cordoned_log_dirs=[directory(10)]))
    records, (error,) = create(live, NewTopic("t", assignments=[(0, [2, 1])]))
    assert error is not None
    text = "The manual partition assignment includes broker 1, but all its log directories are cordoned."
    assert (error.code, error.message, list(records)) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, text, [])


def test_added_partitions_have_as_many_replicas_as_the_first() -> None:
    live = cluster()
    create(live, NewTopic("t", 1, 2))
    assert grow(live, MorePartitions("t", 3)) is None
    assert [len(live.partition("t", index).replicas) for index in (1, 2)] == [2, 2]
    error = grow(live, MorePartitions("t", 4, [[1, 2, 3]]))
    assert error is not None
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_added_partitions_need_an_alive_broker() -> None:
    live = cluster(3)
    create(live, NewTopic("t", 1, 1))
    error = grow(live, MorePartitions("t", 2, [[3]]))
    assert error is not None
    assert "for partition 1 are fenced" in error.message


def test_a_new_topics_configs_are_ordered_like_a_java_hash_map() -> None:
    configs = [("min.insync.replicas", "2"), ("cleanup.policy", "compact"), ("retention.ms", "5")]
    with_elr, _ = create(cluster(elr=True), NewTopic("t", 1, 1, configs=configs))
    without, _ = create(cluster(), NewTopic("t", 1, 1, configs=configs))
    assert with_elr[4] == ClearElrRecord("t")
    assert [type(record) for record in with_elr[5:]] == [PartitionRecord]
    assert len(without) == 5


def test_a_manual_assignment_may_have_any_number_of_replicas() -> None:
    registered = cluster().state.image.brokers
    check_assignment(registered, [3, 1])
    with pytest.raises(Rejected):
        check_assignment(registered, [])


class Compared(int):
    """A broker id that counts the comparisons of all its kind."""

    times = 0

    def __lt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) < int(other)


def test_an_assignment_of_very_many_brokers_is_not_sorted() -> None:
    registered = cluster().state.image.brokers
    ids = Random(1).sample(range(4, 10**9), 10_000)
    with pytest.raises(Rejected, match=f"broker {min(ids)}, but no such broker"):
        check_assignment(registered, [Compared(each) for each in [3, *ids, 1, 2]])
    with pytest.raises(Rejected, match="the broker 2 more than once"):
        check_assignment(registered, [3, 2, 1, 9, 2])
    assert Compared.times < 2 * len(ids), "sorting takes 12 comparisons for each"


def test_deciding_changes_nothing() -> None:
    live = cluster()
    before = live.state.image
    effects: Effects[MetadataRecord, object] = create_topics(
        live.state.catalog, [NewTopic("t", 3, 2)], Placement.in_cluster(live.state), lambda _: None, lambda: ID
    )
    assert effects.records
    assert live.state.image is before

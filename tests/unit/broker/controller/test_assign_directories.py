from __future__ import annotations

import pytest

from ottla.broker.cluster.metadata_records import PartitionChangeRecord
from ottla.broker.controller.assign_directories import assign_directories
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k73_assign_replicas_to_dirs import AssignReplicasToDirsRequest, DirectoryData, PartitionData, TopicData
from tests.support.controllers import LiveController, directory, replicas


@pytest.fixture
def live() -> LiveController:
    """A controller with brokers 1 and 2, each with two directories, and topic a."""
    made = LiveController()
    for broker_id in (1, 2):
        made.add_broker(broker_id, directories=2)
    made.add_topic("a", replicas(1, 2), replicas(2))
    return made


def ask(live: LiveController, place: bytes, topic_id: bytes, *indexes: int) -> list[int]:
    """Return the error code of each partition in broker 1's AssignReplicasToDirs request for the directory `place`."""
    assigned = DirectoryData(place, [TopicData(topic_id, [PartitionData(index) for index in indexes])])
    (answer,) = live.run(assign_directories(live.state, AssignReplicasToDirsRequest(1, live.broker(1).epoch, [assigned]))).directories
    assert answer.id == place
    return [each.error_code for each in answer.topics[0].partitions]


def test_a_replica_has_the_directory_its_broker_reports(live: LiveController) -> None:
    topic_id = live.state.image.topic_ids["a"]
    assert ask(live, directory(11), topic_id, 0) == [ErrorCode.NONE]
    now = live.partition("a")
    assert (now.directories, now.leader, now.leader_epoch, now.partition_epoch) == ((directory(11), directory(20)), 1, 0, 1)


def test_a_repeated_assignment_changes_nothing(live: LiveController) -> None:
    before = live.next_offset
    assert ask(live, directory(10), live.state.image.topic_ids["a"], 0) == [ErrorCode.NONE]
    assert live.next_offset == before


def test_an_unknown_replica_is_refused_without_the_others(live: LiveController) -> None:
    topic_id = live.state.image.topic_ids["a"]
    assert ask(live, directory(11), topic_id, 1, 0, 9) == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert ask(live, directory(11), b"?" * 16, 0) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_replica_in_a_directory_that_is_offline_is_out_of_sync(live: LiveController) -> None:
    topic_id = live.state.image.topic_ids["a"]
    before = live.next_offset
    assert ask(live, directory(99), topic_id, 0, 1) == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    now = live.partition("a")
    assert (now.directories, now.leader, now.isr) == ((directory(99), directory(20)), 2, (2,))
    assert live.log[before:] == [
        PartitionChangeRecord(0, topic_id, directories=[directory(99), directory(20)]),
        PartitionChangeRecord(0, topic_id, isr=[2], leader=2),
    ]


def test_a_broker_of_another_epoch_is_refused(live: LiveController) -> None:
    with pytest.raises(Rejected) as refused:
        assign_directories(live.state, AssignReplicasToDirsRequest(1, live.broker(1).epoch + 1))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_assignments_are_refused_below_metadata_version_17() -> None:
    live = LiveController(level=16)
    with pytest.raises(Rejected) as refused:
        assign_directories(live.state, AssignReplicasToDirsRequest(1, 1))
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION

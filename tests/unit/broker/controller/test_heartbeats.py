"""The broker state and the records that follow a heartbeat, in order, and the fencing of brokers whose session expires."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.cluster.metadata_records import BrokerRegistrationChangeRecord, MetadataRecord, PartitionChangeRecord
from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch, BrokerState
from ottla.broker.controller.heartbeats import HeartbeatReply, fence_stale, heartbeat
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from tests.support.controllers import LiveController, directory, replicas

FENCED, UNFENCED = BrokerState.FENCED, BrokerState.UNFENCED
SHUTDOWN, NOW = BrokerState.CONTROLLED_SHUTDOWN, BrokerState.SHUTDOWN_NOW


def beat(
    controller: LiveController, broker_id: int, offset: int | None = None, **wants: Any
) -> tuple[HeartbeatReply, list[MetadataRecord]]:
    """Send a heartbeat; return the response and the records that it wrote. By default the broker has read all metadata."""
    epoch = controller.broker(broker_id).epoch
    before = len(controller.log)
    controller.state.sessions.touch(BrokerIdAndEpoch(broker_id, epoch), controller.now_ms)
    request = BrokerHeartbeatRequest(broker_id, epoch, before - 1 if offset is None else offset, **wants)
    answer = controller.run(heartbeat(controller.state, request))
    return answer, controller.log[before:]


@pytest.fixture
def controller() -> LiveController:
    return LiveController()


@pytest.mark.parametrize("wrong", [(1, 7), (2, 0)])
def test_a_heartbeat_of_another_epoch_or_unknown_broker_is_stale(controller: LiveController, wrong: tuple[int, int]) -> None:
    controller.add_broker(1)
    with pytest.raises(Rejected) as refused:
        heartbeat(controller.state, BrokerHeartbeatRequest(*wrong))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_fenced_broker_is_unfenced_when_it_has_its_registration_and_requests_it(controller: LiveController) -> None:
    epoch = controller.add_broker(1, fenced=True).epoch
    assert beat(controller, 1, epoch - 1) == (HeartbeatReply(False, FENCED), [])
    assert beat(controller, 1, epoch, want_fence=True) == (HeartbeatReply(True, FENCED), [])
    assert beat(controller, 1, epoch) == (HeartbeatReply(True, UNFENCED), [BrokerRegistrationChangeRecord(1, epoch, fenced=-1)])
    assert beat(controller, 1) == (HeartbeatReply(True, UNFENCED), [])


def test_an_unfenced_broker_leads_its_leaderless_partitions(controller: LiveController) -> None:
    epoch = controller.add_broker(1, fenced=True).epoch
    topic_id = controller.add_topic("a", replicas(1, leader=-1))
    _, written = beat(controller, 1)
    assert written == [BrokerRegistrationChangeRecord(1, epoch, fenced=-1), PartitionChangeRecord(0, topic_id, leader=1)]


def test_a_fenced_broker_may_shut_down_at_once(controller: LiveController) -> None:
    epoch = controller.add_broker(1, fenced=True).epoch
    answer, written = beat(controller, 1, want_shut_down=True)
    assert (answer.state, answer.should_shut_down) == (NOW, True)
    assert written == [BrokerRegistrationChangeRecord(1, epoch, fenced=1)]


@pytest.mark.parametrize(("shut_down", "after"), [(False, FENCED), (True, NOW)])
def test_a_broker_can_request_fencing(controller: LiveController, shut_down: bool, after: BrokerState) -> None:
    epoch = controller.add_broker(1).epoch
    controller.add_broker(2)
    topic_id = controller.add_topic("a", replicas(1, 2))
    answer, written = beat(controller, 1, want_fence=True, want_shut_down=shut_down)
    assert answer.state is after
    assert written == [PartitionChangeRecord(0, topic_id, isr=[2], leader=2), BrokerRegistrationChangeRecord(1, epoch, fenced=1)]


def test_a_broker_without_leaderships_may_shut_down_at_once(controller: LiveController) -> None:
    epoch = controller.add_broker(1).epoch
    controller.add_broker(2)
    topic_id = controller.add_topic("a", replicas(2, 1))
    answer, written = beat(controller, 1, want_shut_down=True)
    assert answer.state is NOW
    assert written == [PartitionChangeRecord(0, topic_id, isr=[2]), BrokerRegistrationChangeRecord(1, epoch, fenced=1)]


def test_a_leading_broker_shuts_down_after_active_brokers_have_the_new_leaders(controller: LiveController) -> None:
    epoch = controller.add_broker(1).epoch
    for broker_id in 2, 3:
        controller.add_broker(broker_id)
        beat(controller, broker_id)
    topic_id = controller.add_topic("a", replicas(1, 2))
    answer, written = beat(controller, 1, want_shut_down=True)
    assert answer == HeartbeatReply(True, SHUTDOWN)
    assert written == [
        BrokerRegistrationChangeRecord(1, epoch, in_controlled_shutdown=1),
        PartitionChangeRecord(0, topic_id, isr=[2], leader=2),
    ]
    moved_at = controller.next_offset - 1
    assert beat(controller, 1, want_shut_down=True) == (HeartbeatReply(True, SHUTDOWN), [])
    beat(controller, 2, moved_at)
    beat(controller, 3, moved_at - 1)
    assert beat(controller, 1, want_shut_down=True)[0].state is SHUTDOWN
    beat(controller, 3, moved_at)
    assert beat(controller, 1, want_shut_down=True) == (HeartbeatReply(True, NOW), [BrokerRegistrationChangeRecord(1, epoch, fenced=1)])


def test_a_shutdown_of_the_only_alive_replica_leaves_its_partition_without_a_leader(controller: LiveController) -> None:
    controller.add_broker(1)
    controller.add_broker(2, fenced=True)
    controller.add_topic("a", replicas(1, 2, isr=(1,)))
    assert beat(controller, 1, want_shut_down=True)[0].state is SHUTDOWN
    assert controller.partition("a").leader == -1
    assert beat(controller, 1, want_shut_down=True)[0].state is NOW


def test_a_failed_directorys_replicas_leave_the_isr(controller: LiveController) -> None:
    epoch = controller.add_broker(1, directories=2).epoch
    controller.add_broker(2)
    topic_id = controller.add_topic("a", replicas(1, 2))
    _, written = beat(controller, 1, offline_log_dirs=[directory(10), directory(99)])
    assert written == [
        PartitionChangeRecord(0, topic_id, isr=[2], leader=2),
        BrokerRegistrationChangeRecord(1, epoch, log_dirs=[directory(11)]),
    ]
    assert beat(controller, 1, offline_log_dirs=[directory(10)])[1] == []


def test_directories_are_ignored_at_older_metadata_versions() -> None:
    controller = LiveController(level=16)
    controller.add_broker(1)
    assert beat(controller, 1, offline_log_dirs=[directory(10)])[1] == []


def test_cordoned_directories_are_written_when_changed(controller: LiveController) -> None:
    epoch = controller.add_broker(1, directories=2).epoch
    assert beat(controller, 1, cordoned_log_dirs=None)[1] == []
    both = [directory(11), directory(10)]
    assert beat(controller, 1, cordoned_log_dirs=[])[1] == [BrokerRegistrationChangeRecord(1, epoch, cordoned_log_dirs=[])]
    assert beat(controller, 1, cordoned_log_dirs=both)[1] == [BrokerRegistrationChangeRecord(1, epoch, cordoned_log_dirs=both)]
    assert beat(controller, 1, cordoned_log_dirs=both[::-1])[1] == []


def test_cordoned_directories_are_ignored_at_older_metadata_versions() -> None:
    controller = LiveController(level=29)
    controller.add_broker(1)
    assert beat(controller, 1, cordoned_log_dirs=[directory(10)])[1] == []


def test_silent_brokers_are_fenced_one_at_a_time(controller: LiveController) -> None:
    epochs = {broker_id: controller.add_broker(broker_id).epoch for broker_id in (1, 2, 3)}
    topic_id = controller.add_topic("a", replicas(1, 2, 3))
    for broker_id in 2, 1, 3:
        beat(controller, broker_id)
        controller.now_ms += 1
    controller.now_ms = 9_000
    assert controller.run(fence_stale(controller.state, controller.now_ms)) is None
    controller.now_ms = 9_002
    at = controller.next_offset
    assert controller.run(fence_stale(controller.state, controller.now_ms)) == BrokerIdAndEpoch(2, epochs[2])
    assert controller.run(fence_stale(controller.state, controller.now_ms)) == BrokerIdAndEpoch(1, epochs[1])
    assert controller.run(fence_stale(controller.state, controller.now_ms)) is None
    assert controller.log[at:] == [
        PartitionChangeRecord(0, topic_id, isr=[1, 3]),
        BrokerRegistrationChangeRecord(2, epochs[2], fenced=1),
        PartitionChangeRecord(0, topic_id, isr=[3], leader=3),
        BrokerRegistrationChangeRecord(1, epochs[1], fenced=1),
    ]


def test_an_expired_session_of_an_old_epoch_fences_no_broker(controller: LiveController) -> None:
    old = controller.add_broker(1).epoch
    beat(controller, 1)
    controller.add_broker(1)
    controller.state.sessions.touch(BrokerIdAndEpoch(2, 0), 0)
    at = controller.next_offset
    for contact in BrokerIdAndEpoch(1, old), BrokerIdAndEpoch(2, 0):
        assert controller.run(fence_stale(controller.state, 9_001)) == contact
    assert controller.run(fence_stale(controller.state, 9_001)) is None
    assert controller.next_offset == at


def test_a_heartbeat_decision_that_is_not_written_changes_nothing(controller: LiveController) -> None:
    epoch = controller.add_broker(1, fenced=True).epoch
    heartbeat(controller.state, BrokerHeartbeatRequest(1, epoch, epoch))
    assert controller.state.sessions.state(1) is FENCED

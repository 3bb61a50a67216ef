from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.cluster.image import RECOVERED, RECOVERING
from ottla.broker.cluster.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.controller.alter_partition import alter_partition
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k56_alter_partition import AlterPartitionRequest, BrokerState, PartitionData, PartitionResult, TopicData
from tests.support.controllers import LiveController, replicas

LEADER_EPOCH, PARTITION_EPOCH = 0, 0
ID = (1).to_bytes(16, "little")


@pytest.fixture
def live() -> LiveController:
    """A controller with brokers 1 to 4, and topic a with one partition whose replicas 1, 2 and 3 are in sync."""
    made = LiveController()
    for broker_id in (1, 2, 3, 4):
        made.add_broker(broker_id)
    made.add_topic("a", replicas(1, 2, 3))
    return made


def wanted(isr: Sequence[int], **fields: object) -> PartitionData:
    """Return the element of an AlterPartition request that proposes this ISR for partition 0, without broker epochs; `fields` replace
    others."""
    partition_data = PartitionData(
        0, LEADER_EPOCH, new_isr_with_epochs=[BrokerState(member) for member in isr], partition_epoch=PARTITION_EPOCH
    )
    for name, value in fields.items():
        setattr(partition_data, name, value)
    return partition_data


def ask(live: LiveController, partition_data: PartitionData, *, by: int = 1, topic_id: bytes = ID) -> PartitionResult:
    request = AlterPartitionRequest(by, live.broker(by).epoch, [TopicData(topic_id, [partition_data])])
    (topic,) = live.run(alter_partition(live.state, request)).topics
    (result,) = topic.partitions
    return result


def test_a_leader_changes_its_isr_and_gets_the_new_state(live: LiveController) -> None:
    assert ask(live, wanted([1, 2])) == PartitionResult(0, ErrorCode.NONE, 1, 0, [1, 2], RECOVERED, 1)
    assert ask(live, wanted([1, 2, 3], partition_epoch=1)) == PartitionResult(0, ErrorCode.NONE, 1, 0, [1, 2, 3], RECOVERED, 2)
    assert live.partition("a").isr == (1, 2, 3)


def test_version_2_has_isr_members_without_epochs(live: LiveController) -> None:
    assert ask(live, PartitionData(0, LEADER_EPOCH, new_isr=[1, 3])).isr == [1, 3]


def test_the_current_isr_is_no_change(live: LiveController) -> None:
    before = live.next_offset
    assert ask(live, wanted([1, 2, 3])) == PartitionResult(0, ErrorCode.NONE, 1, 0, [1, 2, 3], RECOVERED, 0)
    assert live.next_offset == before


@pytest.mark.parametrize("epoch", [-1, 77])
def test_a_request_with_another_broker_epoch_is_refused_entirely(live: LiveController, epoch: int) -> None:
    with pytest.raises(Rejected) as refused:
        alter_partition(live.state, AlterPartitionRequest(1, epoch, [TopicData(ID, [wanted([1])])]))
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(
    ("partition_data", "code"),
    [
        (wanted([1], partition_index=7, leader_epoch=9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (wanted([9], leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (wanted([9], partition_epoch=9, leader_epoch=4), ErrorCode.NOT_CONTROLLER),
        (wanted([9], leader_epoch=4, partition_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (wanted([9], partition_epoch=4), ErrorCode.INVALID_UPDATE_VERSION),
        (wanted([]), ErrorCode.INVALID_REQUEST),
        (wanted([1, 4]), ErrorCode.INVALID_REQUEST),
        (wanted([1, 2, 2]), ErrorCode.INVALID_REQUEST),
        (wanted([2, 3]), ErrorCode.INVALID_REQUEST),
        (wanted([1], leader_recovery_state=RECOVERING), ErrorCode.INVALID_REQUEST),
        (wanted([1], leader_recovery_state=9), ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_first_failed_check_gives_the_error(partition_data: PartitionData, code: ErrorCode) -> None:
    """The partition's leader epoch and partition epoch are 5. A request has several errors where possible, which shows the order of the
    checks."""
    live = LiveController()
    for broker_id in (1, 2, 3, 4):
        live.add_broker(broker_id)
    live.add_topic("a", replicas(1, 2, 3)._replace(leader_epoch=5, partition_epoch=5))
    for name in ("leader_epoch", "partition_epoch"):
        if getattr(partition_data, name) == 0:
            setattr(partition_data, name, 5)
    before = live.next_offset
    assert ask(live, partition_data) == PartitionResult(partition_data.partition_index, code)
    assert live.next_offset == before


@pytest.mark.parametrize("topic_id", [bytes(16), b"?" * 16])
def test_an_unknown_topic_is_unknown_topic_id(live: LiveController, topic_id: bytes) -> None:
    assert ask(live, wanted([1]), topic_id=topic_id) == PartitionResult(0, ErrorCode.UNKNOWN_TOPIC_ID)


def test_only_the_leader_may_change_the_isr(live: LiveController) -> None:
    assert ask(live, wanted([1, 2]), by=2).error_code == ErrorCode.INVALID_REQUEST


def test_an_older_leader_epoch_is_checked_before_the_leader(live: LiveController) -> None:
    live.write(PartitionChangeRecord(0, ID, leader=2))
    assert ask(live, wanted([1])).error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    "change", [{"fenced": 1}, {"in_controlled_shutdown": 1}, None], ids=["fenced", "shutting down", "not registered any more"]
)
def test_an_inactive_broker_cannot_join_the_isr(live: LiveController, change: dict[str, int] | None) -> None:
    epoch = live.broker(3).epoch
    live.write(UnregisterBrokerRecord(3, epoch) if change is None else BrokerRegistrationChangeRecord(3, epoch, **change))
    assert ask(live, wanted([1, 3])).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_another_broker_epoch_cannot_join_the_isr(live: LiveController) -> None:
    epochs = {broker_id: live.broker(broker_id).epoch for broker_id in (1, 2, 3)}
    stale = [BrokerState(1, epochs[1]), BrokerState(2, epochs[2] - 1)]
    assert ask(live, wanted([], new_isr_with_epochs=stale)).error_code == ErrorCode.INELIGIBLE_REPLICA
    known = [BrokerState(1, epochs[1]), BrokerState(2, epochs[2])]
    assert ask(live, wanted([], new_isr_with_epochs=known)).isr == [1, 2]


def test_a_recovering_leader_stays_alone_in_the_isr(live: LiveController) -> None:
    live.write(PartitionChangeRecord(0, ID, isr=[1], leader=1, leader_recovery_state=RECOVERING))
    now = {"leader_epoch": 1, "partition_epoch": 1}
    assert ask(live, wanted([1, 2], leader_recovery_state=RECOVERING, **now)).error_code == ErrorCode.INVALID_REQUEST
    assert ask(live, wanted([1], leader_recovery_state=RECOVERING, **now)).leader_recovery_state == RECOVERING
    result = ask(live, wanted([1, 2], leader_recovery_state=RECOVERED, **now))
    assert (result.leader_recovery_state, result.isr, live.partition("a").leader_recovery_state) == (RECOVERED, [1, 2], RECOVERED)


def test_an_isr_change_that_completes_a_move_can_elect_a_new_leader(live: LiveController) -> None:
    live.write(PartitionChangeRecord(0, ID, replicas=[4, 2, 3, 1], directories=[], removing_replicas=[1], adding_replicas=[4]))
    assert ask(live, wanted([1, 2, 3, 4], partition_epoch=1)) == PartitionResult(0, ErrorCode.NEW_LEADER_ELECTED)
    now = live.partition("a")
    assert (now.leader, now.isr, now.replicas, now.removing_replicas, now.adding_replicas) == (4, (2, 3, 4), (4, 2, 3), (), ())


def test_a_leader_with_a_failed_directory_is_replaced_from_the_requested_isr(live: LiveController) -> None:
    live.write(ConfigRecord(2, "a", "unclean.leader.election.enable", "true"))
    live.write(BrokerRegistrationChangeRecord(1, live.broker(1).epoch, log_dirs=[b"o" * 16]))
    assert ask(live, wanted([1])).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (live.partition("a").leader, live.partition("a").isr) == (2, (2,))

"""The controller's state: it changes only by applied records; sessions after activation; precedence of configs."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.image import ELR_VERSION
from ottla.broker.cluster.metadata_records import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    EndTransactionRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch, BrokerState
from ottla.broker.controller.state import MIN_ISR, UNCLEAN, ControllerState, EffectsOutsideLog
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from tests.support.controllers import CONTROLLER, LiveController, replicas


@pytest.fixture
def controller() -> LiveController:
    return LiveController()


def test_a_brokers_registration_offset_is_known(controller: LiveController) -> None:
    at = controller.next_offset
    controller.add_broker(1, fenced=True)
    assert controller.state.registered_at == {1: at}
    assert controller.state.sessions.state(1) is BrokerState.FENCED


def test_a_registration_change_updates_the_broker(controller: LiveController) -> None:
    broker = controller.add_broker(1, fenced=True)
    controller.write(BrokerRegistrationChangeRecord(1, broker.epoch, fenced=-1))
    assert controller.state.sessions.state(1) is BrokerState.UNFENCED
    assert controller.state.is_active(1)
    controller.write(BrokerRegistrationChangeRecord(1, broker.epoch, in_controlled_shutdown=1))
    assert not controller.state.is_active(1)


def test_an_unregistered_broker_leaves_no_state(controller: LiveController) -> None:
    broker = controller.add_broker(1)
    controller.write(UnregisterBrokerRecord(1, broker.epoch))
    assert controller.state.registered_at == {}
    assert controller.state.sessions.usable() == {}
    assert not controller.state.is_active(1)


def test_soft_effects_get_the_last_offset(controller: LiveController) -> None:
    settled: list[int] = []
    records = [ConfigRecord(4, "", MIN_ISR, "2"), ConfigRecord(4, "", UNCLEAN, "true")]
    at = controller.next_offset
    controller.run(EffectsOutsideLog(records, None, settled.append))
    controller.run(EffectsOutsideLog([], None, settled.append))
    assert settled == [at + 1, at + 1]


def test_transaction_records_change_only_the_offset(controller: LiveController) -> None:
    before, at = controller.state.image, controller.next_offset
    controller.write(BeginTransactionRecord("Bootstrap records"), EndTransactionRecord())
    assert controller.state.image == before
    assert controller.next_offset == at + 2


def test_a_new_controller_gives_every_unfenced_broker_a_session(controller: LiveController) -> None:
    live, fenced = controller.add_broker(1), controller.add_broker(2, fenced=True)
    new = ControllerState(controller.state.cluster_id, controller.state.settings, controller.state.random, voters=[CONTROLLER])
    new.load(controller.state.image, 70, now_ms=1_000_000)
    assert new.image == controller.state.image
    assert new.registered_at == {1: 70, 2: 70}
    assert new.sessions.is_valid(BrokerIdAndEpoch(1, live.epoch), 1_009_000)
    assert not new.sessions.is_valid(BrokerIdAndEpoch(2, fenced.epoch), 1_000_000)
    assert (new.sessions.state(1), new.sessions.state(2)) == (BrokerState.UNFENCED, BrokerState.FENCED)


def test_an_unknown_broker_or_another_epoch_is_stale(controller: LiveController) -> None:
    epoch = controller.add_broker(1).epoch
    assert controller.state.broker(1, epoch).broker_id == 1
    for broker_id, expected in (2, 0), (1, epoch + 1), (1, epoch - 1):
        with pytest.raises(Rejected) as refused:
            controller.state.broker(broker_id, expected)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_topic_config_falls_back_to_node_cluster_and_static_configs(controller: LiveController) -> None:
    state = controller.state
    controller.add_topic("a", replicas(1, 2, 3))
    assert (state.topic_setting("a", MIN_ISR), state.may_elect_uncleanly("a")) == ("1", False)
    for kind, name, value in (4, "", "2"), (4, str(CONTROLLER), "3"), (2, "a", "4"):
        controller.write(ConfigRecord(kind, name, MIN_ISR, value), ConfigRecord(kind, name, UNCLEAN, "TRUE"))
        assert (state.topic_setting("a", MIN_ISR), state.may_elect_uncleanly("a")) == (value, True)


def test_min_insync_replicas_is_at_most_the_replica_count(controller: LiveController) -> None:
    controller.add_topic("a", replicas(1, 2))
    controller.write(ConfigRecord(2, "a", MIN_ISR, "3"))
    topic = controller.state.catalog.topic("a")
    assert topic is not None
    assert controller.state.min_isr(topic) == 2


def test_eligible_leader_replicas_depend_on_their_feature(controller: LiveController) -> None:
    assert not controller.state.has_elr
    assert LiveController(features={ELR_VERSION: 1}).state.has_elr

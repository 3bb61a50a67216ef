"""Registration of brokers and controllers: order of the checks, epochs, a former incarnation, features and directories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.broker.cluster.features import METADATA_VERSION, REGISTERED
from ottla.broker.cluster.image import ELR_VERSION
from ottla.broker.cluster.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    Endpoint,
    FeatureRange,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch, BrokerState
from ottla.broker.controller.registrations import register_broker, register_controller, unregister_broker
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k70_controller_registration as k70
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.registration import Feature, Listener
from tests.support.controllers import CLUSTER_ID, LiveController, directory, replicas

FIRST, SECOND = b"1" * 16, b"2" * 16


def registration(broker_id: int = 1, features: Mapping[str, tuple[int, int]] = REGISTERED, **fields: Any) -> BrokerRegistrationRequest:
    usual: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": FIRST,
        "listeners": [Listener("PLAINTEXT", "localhost", 9092, 0)],
        "features": [Feature(name, low, high) for name, (low, high) in features.items()],
        "rack": None,
        "log_dirs": [directory(broker_id * 10)],
    }
    return BrokerRegistrationRequest(**(usual | fields))


def decide(controller: LiveController, request: BrokerRegistrationRequest, *, has_previous_epoch: bool = True) -> Effects[Any, int]:
    return register_broker(controller.state, request, controller.next_offset, controller.now_ms, has_previous_epoch=has_previous_epoch)


def refusal(controller: LiveController, request: BrokerRegistrationRequest) -> tuple[ErrorCode, str]:
    with pytest.raises(Rejected) as refused:
        decide(controller, request)
    return refused.value.code, refused.value.message


@pytest.fixture
def controller() -> LiveController:
    return LiveController()


def test_a_new_broker_is_fenced_and_its_epoch_is_the_offset_of_its_registration(controller: LiveController) -> None:
    at = controller.next_offset
    epoch = controller.run(decide(controller, registration(rack="r1")))
    assert epoch == at
    assert controller.log[-1] == RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=FIRST,
        broker_epoch=at,
        end_points=[Endpoint("PLAINTEXT", "localhost", 9092, 0)],
        features=[FeatureRange(name, low, high) for name, (low, high) in REGISTERED.items()],
        rack="r1",
        fenced=True,
        log_dirs=[directory(10)],
    )
    assert controller.state.registered_at == {1: at}


def test_the_same_incarnation_keeps_its_epoch_and_state(controller: LiveController) -> None:
    epoch = controller.run(decide(controller, registration()))
    controller.write(
        BrokerRegistrationChangeRecord(1, epoch, fenced=-1), BrokerRegistrationChangeRecord(1, epoch, in_controlled_shutdown=1)
    )
    controller.state.sessions.touch(BrokerIdAndEpoch(1, epoch), controller.now_ms)
    assert controller.run(decide(controller, registration(log_dirs=[directory(10), directory(11)]))) == epoch
    broker = controller.broker(1)
    assert (broker.fenced, broker.in_controlled_shutdown, len(broker.directories)) == (False, True, 2)


def test_another_incarnation_waits_until_the_session_expires(controller: LiveController) -> None:
    epoch = controller.run(decide(controller, registration()))
    controller.state.sessions.touch(BrokerIdAndEpoch(1, epoch), controller.now_ms)
    again = registration(incarnation_id=SECOND)
    assert refusal(controller, again)[0] is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    controller.now_ms += 9_000
    assert refusal(controller, again)[0] is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    controller.now_ms += 1
    assert controller.run(decide(controller, again)) > epoch


def test_a_broker_without_a_heartbeat_is_replaced_at_once(controller: LiveController) -> None:
    epoch = controller.run(decide(controller, registration()))
    assert controller.run(decide(controller, registration(incarnation_id=SECOND))) > epoch


def test_registration_checks_are_in_kafkas_order(controller: LiveController) -> None:
    epoch = controller.run(decide(controller, registration()))
    controller.state.sessions.touch(BrokerIdAndEpoch(1, epoch), controller.now_ms)
    wrong: dict[str, Any] = {"incarnation_id": SECOND, "is_migrating_zk_broker": True, "log_dirs": [], "features": {}}
    assert refusal(controller, registration(cluster_id="other", **wrong))[0] is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert refusal(controller, registration(**wrong))[0] is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    controller.now_ms += 9_001
    assert refusal(controller, registration(**wrong))[0] is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert refusal(controller, registration(**wrong | {"is_migrating_zk_broker": False}))[1] == "No directories specified in request"


@pytest.mark.parametrize(
    ("log_dirs", "problem"),
    [
        ([], "No directories"),
        ([bytes(15) + b"\x63"], "Reserved directory"),
        ([bytes(8) + b"\xff" * 8], "Reserved directory"),
        ([directory(10), directory(10)], "Duplicate directory"),
        ([directory(20)], "Broker 2 is already registered with directory 00000000-0000-0000-0000-0000000003fc"),
    ],
)
def test_a_brokers_directories_are_unique_in_the_cluster(controller: LiveController, log_dirs: list[bytes], problem: str) -> None:
    controller.add_broker(2)
    code, message = refusal(controller, registration(log_dirs=log_dirs))
    assert code is ErrorCode.INVALID_REGISTRATION
    assert problem in message


def test_directories_are_not_checked_at_older_metadata_versions() -> None:
    controller = LiveController(level=16)
    controller.run(decide(controller, registration(log_dirs=[])))
    controller.run(decide(controller, registration(log_dirs=[directory(1)])))
    assert controller.broker(1).directories == ()


def test_a_broker_must_support_every_finalized_level() -> None:
    controller = LiveController(level=29, features={"group.version": 1})
    for features, problem in (
        ({METADATA_VERSION: (7, 28)}, "does not support finalized version 29 of metadata.version"),
        ({METADATA_VERSION: (30, 30)}, "does not support finalized version 29 of metadata.version"),
        ({METADATA_VERSION: (7, 30)}, "finalized version 1 of group.version. The broker wants a version between 0 and 0"),
        ({METADATA_VERSION: (7, 30), "group.version": (1, 1), "share.version": (1, 1)}, "finalized version 0 of share.version"),
    ):
        code, message = refusal(controller, registration(features=features))
        assert code is ErrorCode.UNSUPPORTED_VERSION
        assert problem in message
    controller.run(decide(controller, registration(features={METADATA_VERSION: (29, 29), "group.version": (1, 1)})))


def test_a_broker_must_report_its_metadata_versions() -> None:
    code, message = refusal(LiveController(), registration(features={"group.version": (0, 1)}))
    assert code is ErrorCode.INVALID_REGISTRATION
    assert "do not contain 'metadata.version'" in message


def test_a_broker_must_support_the_kraft_version(controller: LiveController) -> None:
    controller.state.kraft_version = 1
    assert "finalized version 1 of kraft.version" in refusal(controller, registration(features={METADATA_VERSION: (7, 33)}))[1]


@pytest.mark.parametrize(
    "listener", [Listener("", "h", 1, 0), Listener("A", " ", 1, 0), Listener("A", "h", 0, 0), Listener("A", "h", 1, 4)]
)
def test_an_unreachable_listener_is_refused(listener: Listener) -> None:
    assert refusal(LiveController(), registration(listeners=[listener]))[0] is ErrorCode.INVALID_REGISTRATION


def test_a_new_incarnation_has_left_every_isr_and_leadership(controller: LiveController) -> None:
    epoch = controller.run(decide(controller, registration()))
    controller.write(BrokerRegistrationChangeRecord(1, epoch, fenced=-1))
    controller.add_broker(2)
    topic_id = controller.add_topic("a", replicas(1, 2))
    effects = decide(controller, registration(incarnation_id=SECOND))
    assert effects.records[:-1] == [PartitionChangeRecord(0, topic_id, isr=[2], leader=2)]
    controller.run(effects)
    assert controller.state.sessions.state(1) is BrokerState.FENCED


def controller_with_elr() -> tuple[LiveController, int]:
    """A controller with a partition whose ISR is broker 2 and whose ELR is broker 1, and min.insync.replicas=2; return it and broker 1's
    epoch."""
    controller = LiveController(features={ELR_VERSION: 1})
    epoch = controller.run(decide(controller, registration()))
    controller.add_broker(2)
    controller.write(ConfigRecord(4, "", "min.insync.replicas", "2"))
    controller.add_topic("a", replicas(1, 2, isr=(2,))._replace(elr=(1,)))
    return controller, epoch


def test_a_cleanly_stopped_broker_stays_in_the_elr() -> None:
    controller, epoch = controller_with_elr()
    controller.run(decide(controller, registration(incarnation_id=SECOND, previous_broker_epoch=epoch)))
    assert controller.partition("a").elr == (1,)


@pytest.mark.parametrize("reported", [-1, 1_000, None])
def test_an_uncleanly_stopped_broker_leaves_the_elr(reported: int | None) -> None:
    controller, epoch = controller_with_elr()
    request = registration(incarnation_id=SECOND, previous_broker_epoch=epoch if reported is None else reported)
    controller.run(decide(controller, request, has_previous_epoch=reported is not None))
    assert controller.partition("a").elr == ()


def test_an_unregistered_broker_has_left_every_isr_and_leadership(controller: LiveController) -> None:
    epoch = controller.add_broker(1).epoch
    controller.add_broker(2)
    controller.add_topic("a", replicas(1, 2))
    controller.run(unregister_broker(controller.state, 1))
    assert controller.log[-1] == UnregisterBrokerRecord(1, epoch)
    assert (controller.partition("a").isr, controller.partition("a").leader) == ((2,), 2)
    assert 1 not in controller.state.image.brokers


def test_an_unknown_broker_cannot_be_unregistered() -> None:
    with pytest.raises(Rejected) as refused:
        unregister_broker(LiveController().state, 1)
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_controller_registers_with_its_listeners(controller: LiveController) -> None:
    request = k70.ControllerRegistrationRequest(
        3000, FIRST, False, [Listener("CONTROLLER", "localhost", 9093, 0)], [Feature(METADATA_VERSION, 7, 30)]
    )
    assert register_controller(controller.state, request).records == [
        RegisterControllerRecord(
            3000, FIRST, False, [Endpoint("CONTROLLER", "localhost", 9093, 0)], [FeatureRange(METADATA_VERSION, 7, 30)]
        )
    ]
    with pytest.raises(Rejected) as refused:
        register_controller(LiveController(level=14).state, request)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION

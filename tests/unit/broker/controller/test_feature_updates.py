"""Rules: all or nothing; every node has to know the level; metadata.version goes down only where nothing can be lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.cluster.features import METADATA_LEVEL, METADATA_VERSION, REGISTERED
from ottla.broker.cluster.image import ELR_VERSION, KRAFT_VERSION
from ottla.broker.cluster.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    FeatureRange,
    MetadataRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from ottla.broker.controller.feature_updates import FeatureUpdate, UpgradeType, update_features
from ottla.broker.controller.state import MIN_ISR
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from tests.support.controllers import CONTROLLER, LiveController

GROUPS = "group.version"


def records_of(controller: LiveController, *updates: FeatureUpdate) -> Sequence[MetadataRecord]:
    return update_features(controller.state, updates).records


def problem(controller: LiveController, *updates: FeatureUpdate) -> str:
    with pytest.raises(Rejected) as refused:
        update_features(controller.state, updates)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    return refused.value.message


def test_levels_go_up_together() -> None:
    controller = LiveController(level=25)
    updates = FeatureUpdate(METADATA_VERSION, 30), FeatureUpdate(GROUPS, 1)
    controller.run(update_features(controller.state, updates))
    assert controller.state.image.features == {METADATA_VERSION: 30, GROUPS: 1}


def test_one_feature_that_is_refused_refuses_all() -> None:
    controller = LiveController(level=25)
    message = problem(controller, FeatureUpdate(METADATA_VERSION, 30), FeatureUpdate(GROUPS, 7))
    assert message == f"Invalid update version 7 for feature group.version. Local controller {CONTROLLER} only supports versions 0-1"


def test_a_feature_that_nobody_knows_is_refused_at_every_level() -> None:
    controller = LiveController()
    assert f"Local controller {CONTROLLER} does not support this feature." in problem(controller, FeatureUpdate("a.b", 1))
    assert "Feature a.b not found." in problem(controller, FeatureUpdate("a.b", 0, UpgradeType.SAFE_DOWNGRADE))


@pytest.mark.parametrize("fenced", [True, False])
def test_a_registered_broker_that_lacks_the_level_refuses_it(fenced: bool) -> None:
    controller = LiveController(level=25)
    controller.write(RegisterBrokerRecord(broker_id=1, features=[FeatureRange(METADATA_VERSION, 7, 29)], fenced=fenced))
    assert problem(controller, FeatureUpdate(METADATA_VERSION, 30)).endswith("Broker 1 only supports versions 7-29")
    assert problem(controller, FeatureUpdate(GROUPS, 1)).endswith("Broker 1 does not support this feature.")
    assert records_of(controller, FeatureUpdate(METADATA_VERSION, 29)) == [FeatureLevelRecord(METADATA_VERSION, 29)]


def test_a_registered_controller_that_lacks_the_level_refuses_it() -> None:
    controller = LiveController(level=25)
    controller.write(RegisterControllerRecord(CONTROLLER + 1, features=[FeatureRange(METADATA_VERSION, 7, 29)]))
    assert problem(controller, FeatureUpdate(METADATA_VERSION, 30)).endswith(f"Controller {CONTROLLER + 1} only supports versions 7-29")


def test_a_voter_that_has_not_registered_refuses_every_level() -> None:
    controller = LiveController()
    controller.state.voters = [CONTROLLER, 4000]
    assert "controller 4000 has not registered" in problem(controller, FeatureUpdate(GROUPS, 1))
    controller.write(RegisterControllerRecord(4000, features=[FeatureRange(GROUPS, 0, 1)]))
    assert records_of(controller, FeatureUpdate(GROUPS, 1)) == [FeatureLevelRecord(GROUPS, 1)]


def test_below_the_level_that_has_registrations_of_controllers_none_is_asked_for() -> None:
    controller = LiveController(level=14)
    controller.state.voters = [CONTROLLER, 4000]
    assert records_of(controller, FeatureUpdate(METADATA_VERSION, 15)) == [FeatureLevelRecord(METADATA_VERSION, 15)]


@pytest.mark.parametrize("kind", [0, 4, -1])
def test_a_kind_of_change_that_there_is_not_is_refused(kind: int) -> None:
    assert "does not support the given upgrade type" in problem(LiveController(), FeatureUpdate(GROUPS, 1, kind))


def test_a_level_below_zero_is_refused() -> None:
    assert "cannot be less than 0" in problem(LiveController(), FeatureUpdate(GROUPS, -1, UpgradeType.SAFE_DOWNGRADE))


def test_a_level_goes_down_only_when_that_is_said_and_up_only_when_it_is_not() -> None:
    controller = LiveController(features={GROUPS: 1})
    assert "without setting the upgrade type" in problem(controller, FeatureUpdate(GROUPS, 0))
    assert records_of(controller, FeatureUpdate(GROUPS, 0, UpgradeType.SAFE_DOWNGRADE)) == [FeatureLevelRecord(GROUPS, 0)]
    assert "Can't downgrade to a newer version." in problem(LiveController(), FeatureUpdate(GROUPS, 1, UpgradeType.UNSAFE_DOWNGRADE))


@pytest.mark.parametrize(("high", "low"), [(29, 24), (22, 18), (12, 12), (10, 9)])
def test_the_metadata_goes_down_over_levels_that_brought_no_records(high: int, low: int) -> None:
    controller = LiveController(level=high)
    kind = UpgradeType.UPGRADE if high == low else UpgradeType.SAFE_DOWNGRADE
    assert records_of(controller, FeatureUpdate(METADATA_VERSION, low, kind)) == [FeatureLevelRecord(METADATA_VERSION, low)]


@pytest.mark.parametrize(("high", "low"), [(30, 29), (24, 22), (17, 16), (15, 14), (14, 13), (13, 12), (11, 10), (8, 7), (30, 7)])
def test_the_metadata_does_not_go_down_over_a_level_that_brought_records(high: int, low: int) -> None:
    controller = LiveController(level=high)
    message = problem(controller, FeatureUpdate(METADATA_VERSION, low, UpgradeType.SAFE_DOWNGRADE))
    assert message.startswith(f"Unsupported metadata.version downgrade from {high} to {low}. Refusing")
    assert "Unsafe metadata downgrade is not supported" in problem(
        controller, FeatureUpdate(METADATA_VERSION, low, UpgradeType.UNSAFE_DOWNGRADE)
    )


def test_eligible_leader_replicas_need_a_level_of_metadata_which_the_same_request_may_bring() -> None:
    controller = LiveController(level=22)
    assert "depends on metadata.version level 23" in problem(controller, FeatureUpdate(ELR_VERSION, 1))
    assert len(records_of(controller, FeatureUpdate(ELR_VERSION, 1), FeatureUpdate(METADATA_VERSION, 23))) == 3


def test_with_eligible_leader_replicas_the_needed_replicas_in_sync_are_the_same_on_every_broker() -> None:
    controller = LiveController()
    for broker_id in 1, 2:
        controller.write(ConfigRecord(4, str(broker_id), MIN_ISR, "2"), ConfigRecord(4, str(broker_id), "log.retention.ms", "1"))
    assert records_of(controller, FeatureUpdate(ELR_VERSION, 1)) == [
        ConfigRecord(4, "", MIN_ISR, "1"),
        ConfigRecord(4, "1", MIN_ISR, None),
        ConfigRecord(4, "2", MIN_ISR, None),
        FeatureLevelRecord(ELR_VERSION, 1),
    ]
    controller.write(ConfigRecord(4, "", MIN_ISR, "3"))
    assert ConfigRecord(4, "", MIN_ISR, "1") not in records_of(controller, FeatureUpdate(ELR_VERSION, 1))


def test_the_quorums_version_stays_what_it_is() -> None:
    controller = LiveController()
    controller.state.kraft_version = 1
    assert records_of(controller, FeatureUpdate(KRAFT_VERSION, 1)) == [NoOpRecord()]
    assert records_of(controller, FeatureUpdate(KRAFT_VERSION, 1, UpgradeType.SAFE_DOWNGRADE)) == []
    assert "Can't downgrade the version" in problem(controller, FeatureUpdate(KRAFT_VERSION, 0, UpgradeType.SAFE_DOWNGRADE))
    controller.state.kraft_version = 0
    assert "always has a single voter" in problem(controller, FeatureUpdate(KRAFT_VERSION, 1))


def test_everything_that_a_member_registers_can_be_had() -> None:
    controller = LiveController()
    controller.add_broker(1)
    for name, (_, high) in REGISTERED.items():
        if name != KRAFT_VERSION:
            controller.run(update_features(controller.state, [FeatureUpdate(name, high)]))
    assert controller.state.image.features == {name: high for name, (_, high) in REGISTERED.items() if name != KRAFT_VERSION}
    assert controller.state.metadata_level == METADATA_LEVEL

"""Feature updates: all or none are applied, every node must support the level, and metadata.version is lowered only without losing
metadata."""

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


def test_several_features_are_upgraded_together() -> None:
    controller = LiveController(level=25)
    updates = FeatureUpdate(METADATA_VERSION, 30), FeatureUpdate(GROUPS, 1)
    controller.run(update_features(controller.state, updates))
    assert controller.state.image.features == {METADATA_VERSION: 30, GROUPS: 1}


def test_one_refused_feature_refuses_the_request() -> None:
    controller = LiveController(level=25)
    message = problem(controller, FeatureUpdate(METADATA_VERSION, 30), FeatureUpdate(GROUPS, 7))
    assert message == f"Invalid update version 7 for feature group.version. Local controller {CONTROLLER} only supports versions 0-1"


def test_an_unknown_feature_is_refused() -> None:
    controller = LiveController()
    assert f"Local controller {CONTROLLER} does not support this feature." in problem(controller, FeatureUpdate("a.b", 1))
    assert "Feature a.b not found." in problem(controller, FeatureUpdate("a.b", 0, UpgradeType.SAFE_DOWNGRADE))


@pytest.mark.parametrize("fenced", [True, False])
def test_a_level_unsupported_by_a_broker_is_refused(fenced: bool) -> None:
    controller = LiveController(level=25)
    controller.write(RegisterBrokerRecord(broker_id=1, features=[FeatureRange(METADATA_VERSION, 7, 29)], fenced=fenced))
    assert problem(controller, FeatureUpdate(METADATA_VERSION, 30)).endswith("Broker 1 only supports versions 7-29")
    assert problem(controller, FeatureUpdate(GROUPS, 1)).endswith("Broker 1 does not support this feature.")
    assert records_of(controller, FeatureUpdate(METADATA_VERSION, 29)) == [FeatureLevelRecord(METADATA_VERSION, 29)]


def test_a_level_unsupported_by_a_controller_is_refused() -> None:
    controller = LiveController(level=25)
    controller.write(RegisterControllerRecord(CONTROLLER + 1, features=[FeatureRange(METADATA_VERSION, 7, 29)]))
    assert problem(controller, FeatureUpdate(METADATA_VERSION, 30)).endswith(f"Controller {CONTROLLER + 1} only supports versions 7-29")


def test_an_unregistered_voter_refuses_every_upgrade() -> None:
    controller = LiveController()
    controller.state.voters = [CONTROLLER, 4000]
    assert "controller 4000 has not registered" in problem(controller, FeatureUpdate(GROUPS, 1))
    controller.write(RegisterControllerRecord(4000, features=[FeatureRange(GROUPS, 0, 1)]))
    assert records_of(controller, FeatureUpdate(GROUPS, 1)) == [FeatureLevelRecord(GROUPS, 1)]


def test_older_metadata_versions_need_no_controller_registrations() -> None:
    controller = LiveController(level=14)
    controller.state.voters = [CONTROLLER, 4000]
    assert records_of(controller, FeatureUpdate(METADATA_VERSION, 15)) == [FeatureLevelRecord(METADATA_VERSION, 15)]


@pytest.mark.parametrize("kind", [0, 4, -1])
def test_an_unknown_upgrade_type_is_refused(kind: int) -> None:
    assert "does not support the given upgrade type" in problem(LiveController(), FeatureUpdate(GROUPS, 1, kind))


def test_a_negative_level_is_refused() -> None:
    assert "cannot be less than 0" in problem(LiveController(), FeatureUpdate(GROUPS, -1, UpgradeType.SAFE_DOWNGRADE))


def test_the_upgrade_type_must_match_the_direction() -> None:
    controller = LiveController(features={GROUPS: 1})
    assert "without setting the upgrade type" in problem(controller, FeatureUpdate(GROUPS, 0))
    assert records_of(controller, FeatureUpdate(GROUPS, 0, UpgradeType.SAFE_DOWNGRADE)) == [FeatureLevelRecord(GROUPS, 0)]
    assert "Can't downgrade to a newer version." in problem(LiveController(), FeatureUpdate(GROUPS, 1, UpgradeType.UNSAFE_DOWNGRADE))


@pytest.mark.parametrize(("high", "low"), [(29, 24), (22, 18), (12, 12), (10, 9)])
def test_metadata_version_downgrades_over_levels_without_new_records(high: int, low: int) -> None:
    controller = LiveController(level=high)
    kind = UpgradeType.UPGRADE if high == low else UpgradeType.SAFE_DOWNGRADE
    assert records_of(controller, FeatureUpdate(METADATA_VERSION, low, kind)) == [FeatureLevelRecord(METADATA_VERSION, low)]


@pytest.mark.parametrize(("high", "low"), [(30, 29), (24, 22), (17, 16), (15, 14), (14, 13), (13, 12), (11, 10), (8, 7), (30, 7)])
def test_metadata_version_does_not_downgrade_over_levels_with_new_records(high: int, low: int) -> None:
    controller = LiveController(level=high)
    message = problem(controller, FeatureUpdate(METADATA_VERSION, low, UpgradeType.SAFE_DOWNGRADE))
    assert message.startswith(f"Unsupported metadata.version downgrade from {high} to {low}. Refusing")
    assert "Unsafe metadata downgrade is not supported" in problem(
        controller, FeatureUpdate(METADATA_VERSION, low, UpgradeType.UNSAFE_DOWNGRADE)
    )


def test_eligible_leader_replicas_version_depends_on_metadata_version() -> None:
    controller = LiveController(level=22)
    assert "depends on metadata.version level 23" in problem(controller, FeatureUpdate(ELR_VERSION, 1))
    assert len(records_of(controller, FeatureUpdate(ELR_VERSION, 1), FeatureUpdate(METADATA_VERSION, 23))) == 3


def test_enabling_eligible_leader_replicas_makes_min_insync_replicas_cluster_wide() -> None:
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


def test_kraft_version_cannot_be_changed() -> None:
    controller = LiveController()
    controller.state.kraft_version = 1
    assert records_of(controller, FeatureUpdate(KRAFT_VERSION, 1)) == [NoOpRecord()]
    assert records_of(controller, FeatureUpdate(KRAFT_VERSION, 1, UpgradeType.SAFE_DOWNGRADE)) == []
    assert "Can't downgrade the version" in problem(controller, FeatureUpdate(KRAFT_VERSION, 0, UpgradeType.SAFE_DOWNGRADE))
    controller.state.kraft_version = 0
    assert "always has a single voter" in problem(controller, FeatureUpdate(KRAFT_VERSION, 1))


def test_every_supported_level_of_a_broker_can_be_set() -> None:
    controller = LiveController()
    controller.add_broker(1)
    for name, (_, high) in REGISTERED.items():
        if name != KRAFT_VERSION:
            controller.run(update_features(controller.state, [FeatureUpdate(name, high)]))
    assert controller.state.image.features == {name: high for name, (_, high) in REGISTERED.items() if name != KRAFT_VERSION}
    assert controller.state.metadata_level == METADATA_LEVEL

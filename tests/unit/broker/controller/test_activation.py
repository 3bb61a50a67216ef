"""Activation of the controller: an empty log gets the records from formatting in one transaction; an unfinished transaction is aborted."""

from __future__ import annotations

from random import Random

import pytest

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import ELR_VERSION
from ottla.broker.cluster.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    UserScramCredentialRecord,
)
from ottla.broker.cluster.release_levels import bootstrap_levels, level_records
from ottla.broker.controller.activation import activate
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.settings import BrokerSettings
from tests.support.controllers import CLUSTER_ID, CONTROLLER, LiveController


@pytest.fixture
def empty() -> ControllerState:
    return ControllerState(CLUSTER_ID, BrokerSettings(node_id=CONTROLLER, min_insync_replicas=2), Random(1), voters=[CONTROLLER])


def test_a_new_log_starts_with_the_newest_metadata_version(empty: ControllerState) -> None:
    assert activate(empty).records == [
        BeginTransactionRecord("Bootstrap records"),
        FeatureLevelRecord(METADATA_VERSION, 33),
        EndTransactionRecord(),
    ]


def test_a_new_log_starts_with_the_records_of_kafka_4_4(empty: ControllerState) -> None:
    formatted = list(level_records(bootstrap_levels({}, None, dynamic_quorum=True)))
    effects = activate(empty, formatted)
    assert effects.records == [
        BeginTransactionRecord("Bootstrap records"),
        FeatureLevelRecord(METADATA_VERSION, 33),
        FeatureLevelRecord(ELR_VERSION, 1),
        FeatureLevelRecord("group.version", 1),
        FeatureLevelRecord("share.version", 2),
        FeatureLevelRecord("streams.version", 1),
        FeatureLevelRecord("transaction.version", 2),
        ConfigRecord(4, "", "min.insync.replicas", "2"),
        EndTransactionRecord(),
    ]
    empty.apply(effects, 1)
    assert empty.has_elr
    assert empty.metadata_level == 33


def test_a_new_log_contains_the_users_of_the_format(empty: ControllerState) -> None:
    user = UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096)
    empty.apply(activate(empty, [FeatureLevelRecord(METADATA_VERSION, 33), user]), 1)
    assert empty.image.scram == {(1, "alice"): user}


def test_older_metadata_versions_start_the_log_without_a_transaction(empty: ControllerState) -> None:
    assert activate(empty, [FeatureLevelRecord(METADATA_VERSION, 12)]).records == [FeatureLevelRecord(METADATA_VERSION, 12)]


def test_an_incomplete_bootstrap_is_aborted_and_repeated(empty: ControllerState) -> None:
    records = activate(empty, in_transaction=True).records
    assert records[:2] == [AbortTransactionRecord("Controller failover"), BeginTransactionRecord("Bootstrap records")]


def test_a_log_with_metadata_is_not_changed() -> None:
    assert activate(LiveController().state).records == []


def test_an_open_metadata_transaction_is_aborted_on_activation() -> None:
    assert activate(LiveController().state, in_transaction=True).records == [AbortTransactionRecord("Controller failover")]

"""The APIs and features of a release that Ottla offers, derived from the declarations of its handlers."""

from __future__ import annotations

import pytest

from ottla.broker.api.offered import WITHOUT_EFFECT, offered, unserved, unserved_counts
from ottla.broker.cluster.features import supported
from ottla.broker.releases.release_behaviour import behaviour_of as like
from ottla.broker.releases.table import releases


@pytest.mark.parametrize("release", releases())
def test_offered_apis_features_and_settings_are_a_subset_of_the_releases(release: str) -> None:
    table, ours = like(release).table, offered(like(release))
    assert ours.apis.keys() <= table.apis.keys()
    assert ours.features.keys() <= table.features.keys()
    assert ours.broker_settings.keys() <= table.broker_settings.keys()
    assert ours.topic_settings.keys() <= table.topic_settings.keys()
    assert ours.group_settings.keys() <= table.group_settings.keys()


def test_apis_and_features_are_those_that_a_broker_like_the_release_serves() -> None:
    ours = offered(like("3.7"))
    assert (ours.apis["Fetch"], ours.apis["Metadata"]) == ((4, 16), (0, 12))
    assert {name: (low, high) for name, (low, high, _) in ours.features.items()} == supported(like("3.7"))


def test_a_setting_that_is_only_accepted_is_without_effect() -> None:
    found = {change.name: change.after for change in unserved(like("4.4"))}
    assert found["num.io.threads"] == found["sasl.oauthbearer.scope"] == found["local.retention.ms"] == WITHOUT_EFFECT
    assert not found.keys() & {"ssl.keystore.location", "log.retention.ms", "auto.leader.rebalance.enable", "cleanup.policy"}


def test_every_setting_of_the_default_release_is_known() -> None:
    assert [change.name for change in unserved(like("4.4")) if change.kind.endswith("setting") and change.after is None] == []


def test_the_counts_are_by_kind() -> None:
    kinds = [change.kind for change in unserved(like("2.8"))]
    settings = kinds.count("broker setting") + kinds.count("topic setting")
    assert unserved_counts(like("2.8")) == f"APIs {kinds.count('API')}, settings {settings}"

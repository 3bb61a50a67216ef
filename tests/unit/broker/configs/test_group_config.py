from __future__ import annotations

import pytest

from ottla.broker.configs.group_config import (
    ASSIGNMENT_INTERVAL_MS,
    DEAD_LETTER_TOPIC,
    HEARTBEAT_INTERVAL_MS,
    RACK_TAGS,
    SESSION_TIMEOUT_MS,
    check_group_configs,
    described_group_value,
    effective_group_values,
    rack_tags,
    share_settings,
)
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.releases.release_behaviour import behaviour_of
from ottla.protocol.error_codes import ErrorCode


@pytest.mark.parametrize("value", ["45000", "60000"])
def test_a_value_within_the_brokers_bounds_is_allowed(value: str) -> None:
    check_group_configs({SESSION_TIMEOUT_MS: value}, BrokerSettings())


@pytest.mark.parametrize(
    "overrides",
    [
        {SESSION_TIMEOUT_MS: "44999"},
        {SESSION_TIMEOUT_MS: "60001"},
        {HEARTBEAT_INTERVAL_MS: "4999"},
        {HEARTBEAT_INTERVAL_MS: "15001"},
        {HEARTBEAT_INTERVAL_MS: "often"},
        {"no.such": "45000"},
        {"share.session.timeout.ms": "44999"},
        {"share.auto.offset.reset": "by_duration:P"},
        {"share.auto.offset.reset": f"by_duration:P{'9' * 400}D"},
        {"share.auto.offset.reset": "sometime"},
        {"share.isolation.level": "none"},
        {"share.record.lock.duration.ms": "60001"},
        {"streams.num.standby.replicas": "3"},
        {"streams.heartbeat.interval.ms": "1"},
        {"consumer.assignment.interval.ms": "15001"},
    ],
)
def test_invalid_values_and_unknown_keys_are_refused(overrides: dict[str, str]) -> None:
    with pytest.raises(Rejected) as refused:
        check_group_configs(overrides, BrokerSettings())
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumer.assignment.interval.ms", "0"),
        ("share.session.timeout.ms", "50000"),
        ("share.heartbeat.interval.ms", "6000"),
        ("share.record.lock.duration.ms", "15000"),
        ("share.delivery.count.limit", "10"),
        ("share.partition.max.record.locks", "4000"),
        ("share.auto.offset.reset", "by_duration:PT1H"),
        ("share.isolation.level", "read_committed"),
        ("share.renew.acknowledge.enable", "false"),
        ("share.assignment.interval.ms", "0"),
        ("streams.session.timeout.ms", "50000"),
        ("streams.heartbeat.interval.ms", "6000"),
        ("streams.num.standby.replicas", "2"),
        ("streams.initial.rebalance.delay.ms", "0"),
        ("streams.assignment.interval.ms", "0"),
    ],
)
def test_every_setting_of_kafkas_groups_is_known(name: str, value: str) -> None:
    check_group_configs({name: value}, BrokerSettings())
    assert described_group_value(name, {name: value}, BrokerSettings()) == value


def test_a_value_out_of_bounds_gets_kafkas_message() -> None:
    with pytest.raises(Rejected) as refused:
        check_group_configs({SESSION_TIMEOUT_MS: "1"}, BrokerSettings())
    assert refused.value.message == "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"


def test_a_session_timeout_below_the_heartbeat_interval_is_refused() -> None:
    settings = BrokerSettings(group_consumer_min_session_timeout_ms=1_000)
    check_group_configs({SESSION_TIMEOUT_MS: "5001"}, settings)
    with pytest.raises(Rejected):
        check_group_configs({SESSION_TIMEOUT_MS: "5000"}, settings)


def test_an_unset_group_config_falls_back_to_the_broker() -> None:
    settings = BrokerSettings(group_consumer_heartbeat_interval_ms=7_000)
    assert effective_group_values("consumer", {SESSION_TIMEOUT_MS: "50000"}, settings) == {
        "session.timeout.ms": 50_000,
        "heartbeat.interval.ms": 7_000,
        "assignment.interval.ms": 1_000,
    }


def test_a_share_group_has_settings_of_its_own() -> None:
    overrides = {SESSION_TIMEOUT_MS: "60000", "share.session.timeout.ms": "50000"}
    assert effective_group_values("share", overrides, BrokerSettings(group_share_heartbeat_interval_ms=6_000)) == {
        "session.timeout.ms": 50_000,
        "heartbeat.interval.ms": 6_000,
        "assignment.interval.ms": 1_000,
    }


def test_the_assignment_interval_may_be_0() -> None:
    check_group_configs({ASSIGNMENT_INTERVAL_MS: "0"}, BrokerSettings())
    assert effective_group_values("consumer", {ASSIGNMENT_INTERVAL_MS: "0"}, BrokerSettings())["assignment.interval.ms"] == 0


def test_a_changed_broker_default_is_limited_to_the_bounds() -> None:
    settings = BrokerSettings(group_consumer_assignment_interval_ms=20_000)
    assert effective_group_values("consumer", {}, settings)["assignment.interval.ms"] == 15_000


def test_a_stored_value_is_limited_to_changed_bounds() -> None:
    settings = BrokerSettings(group_consumer_max_session_timeout_ms=50_000)
    assert effective_group_values("consumer", {SESSION_TIMEOUT_MS: "60000", "share.x": "1"}, settings)["session.timeout.ms"] == 50_000


@pytest.mark.parametrize(("name", "value"), [("consumer.assignor.offload.enable", "true"), ("streams.assignor.name", "sticky")])
def test_settings_of_4_4_are_known_since_then(name: str, value: str) -> None:
    check_group_configs({name: value}, BrokerSettings())
    with pytest.raises(Rejected, match="Unknown group config name"):
        check_group_configs({name: value}, BrokerSettings(release_behaviour=behaviour_of("4.3")))


@pytest.mark.parametrize(
    ("name", "value"),
    [("streams.assignor.name", "random"), ("share.assignor.offload.enable", "maybe"), ("errors.deadletterqueue.topic.name", "__t")],
)
def test_invalid_values_of_4_4s_settings_are_refused(name: str, value: str) -> None:
    with pytest.raises(Rejected) as refused:
        check_group_configs({name: value}, BrokerSettings())
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_group_has_a_dead_letter_queue_if_share_version_allows_it() -> None:
    overrides = {DEAD_LETTER_TOPIC: "dlq.t", "errors.deadletterqueue.copy.record.enable": "true"}
    settings = BrokerSettings()
    check_group_configs(overrides, settings)
    allowed = share_settings(overrides, settings, dead_letters=True)
    assert (allowed.dead_letter_topic, allowed.copies_dead_letters) == ("dlq.t", True)
    assert share_settings(overrides, settings).dead_letter_topic == ""
    assert share_settings({}, settings, dead_letters=True).dead_letter_topic == ""


@pytest.mark.parametrize(("value", "tags"), [("zone, rack", ("zone", "rack")), ("", ()), (None, ("cell",))])
def test_a_groups_rack_tags_replace_the_brokers(value: str | None, tags: tuple[str, ...]) -> None:
    settings = BrokerSettings(group_streams_rack_aware_assignment_tags=("cell",))
    overrides = {} if value is None else {RACK_TAGS: value}
    check_group_configs(overrides, settings)
    assert rack_tags(overrides, settings) == tags


def test_rack_tags_without_a_name_are_refused() -> None:
    with pytest.raises(Rejected, match="must not be empty"):
        check_group_configs({RACK_TAGS: "zone,"}, BrokerSettings())


def test_rack_tags_that_are_named_twice_are_refused() -> None:
    with pytest.raises(Rejected, match="must not contain duplicate tag keys"):
        check_group_configs({RACK_TAGS: "zone, zone"}, BrokerSettings())

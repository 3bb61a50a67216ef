from __future__ import annotations

import pytest

from ottla.broker.configs.topic_config import (
    check_topic_configs,
    effective_log_config,
    effective_values,
    internal_topic_configs,
    internal_topic_partitions,
)
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.protocol.error_codes import ErrorCode


def test_a_topic_without_overrides_runs_with_the_brokers_settings() -> None:
    config = effective_log_config({}, BrokerSettings(log_retention_hours=2, message_max_bytes=7, log_cleanup_policy=("compact", "delete")))
    assert (config.retention_ms, config.max_message_bytes, config.compacts, config.deletes) == (7_200_000, 7, True, True)


def test_a_topic_config_overrides_the_broker() -> None:
    config = effective_log_config({"retention.ms": "-1", "cleanup.policy": "compact"}, BrokerSettings(log_retention_ms=5))
    assert (config.retention_ms, config.deletes) == (-1, False)


def test_internal_segment_bytes_overrides_segment_bytes() -> None:
    assert effective_log_config({"internal.segment.bytes": "100"}, BrokerSettings()).segment_bytes == 100
    assert effective_log_config({}, BrokerSettings(internal_segment_bytes=50)).segment_bytes == 50


def test_an_unknown_topic_config_is_ignored() -> None:
    assert effective_log_config({"future.key": "1"}, BrokerSettings()) == effective_log_config({}, BrokerSettings())


@pytest.mark.parametrize(
    "overrides",
    [
        {"no.such.key": "1"},
        {"retention.ms": "soon"},
        {"retention.ms": "-2"},
        {"cleanup.policy": "shred"},
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
        {"message.timestamp.type": "Yesterday"},
        {"leader.replication.throttled.replicas": "a:b"},
        {"follower.replication.throttled.replicas": "0:-1"},
    ],
)
def test_an_invalid_topic_config_is_refused(overrides: dict[str, str]) -> None:
    with pytest.raises(Rejected) as refused:
        check_topic_configs(overrides, BrokerSettings())
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert next(iter(overrides)) in refused.value.message


def test_the_offsets_topic_is_compacted_and_uses_the_brokers_settings() -> None:
    settings = BrokerSettings(offsets_topic_segment_bytes=2_000_000, offsets_topic_num_partitions=7)
    configs = internal_topic_configs("__consumer_offsets", settings)
    check_topic_configs(configs, settings)
    assert configs == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "2000000"}
    assert internal_topic_partitions("__consumer_offsets", settings) == 7


def test_the_transaction_topic_is_compacted_and_its_configs_are_valid() -> None:
    configs = internal_topic_configs("__transaction_state", BrokerSettings())
    check_topic_configs(configs, BrokerSettings())
    assert configs["cleanup.policy"] == "compact"
    assert configs["compression.type"] == "uncompressed"


def test_other_topics_have_no_internal_configs() -> None:
    assert internal_topic_configs("flights", BrokerSettings()) == {}


def test_only_throttled_replicas_keep_repeated_items() -> None:
    throttled = {"leader.replication.throttled.replicas": "1:1,1:1", "cleanup.policy": "delete,delete"}
    values = effective_values(throttled, BrokerSettings())
    assert values["leader.replication.throttled.replicas"] == ("1:1", "1:1")
    assert values["cleanup.policy"] == ("delete",)


def test_any_negative_retention_is_no_limit() -> None:
    check_topic_configs({"retention.bytes": "-9"}, BrokerSettings())
    assert effective_log_config({"retention.bytes": "-9"}, BrokerSettings()).retention_bytes == -9

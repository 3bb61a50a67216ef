"""A topic's settings: validation of overrides, and the values in force for its logs.

Invariants:
- The value in force is the topic's override, else the first of the key's synonyms that is set on the broker, else the key's default.
- Overrides are stored as the client's text and parsed where they are used; they were validated here when they were set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.broker.core.config_keys import InvalidConfig, Value
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings, topic_defaults, topic_keys
from ottla.protocol.error_codes import ErrorCode

_LOG_CONFIG_FIELDS = frozenset(item.name for item in fields(LogConfig))


def check_topic_configs(overrides: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raise `Rejected(INVALID_CONFIG)` if a topic cannot have these overrides (Kafka's `LogConfig.validate`)."""
    for name, text in overrides.items():
        key = topic_keys(settings).get(name)
        if key is None:
            raise Rejected(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        try:
            key.parse(text)
        except InvalidConfig as error:
            raise Rejected(ErrorCode.INVALID_CONFIG, str(error)) from error
    values = effective_values(overrides, settings)
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(shortest, int)
    assert isinstance(longest, int)
    if shortest > longest:
        raise Rejected(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})",
        )


def usable_overrides(overrides: Mapping[str, str], settings: BrokerSettings) -> dict[str, Value]:
    """Return the typed values of the valid overrides. Unknown names and invalid values, which a broker of another release may have stored,
    are skipped.
    """
    values, keys = {}, topic_keys(settings)
    for name, text in overrides.items():
        if name in keys:
            with contextlib.suppress(InvalidConfig):
                values[name] = keys[name].parse(text)
    return values


def effective_values(overrides: Mapping[str, str], settings: BrokerSettings) -> dict[str, Value]:
    """Return the typed value in force of every setting of a topic with these overrides, by name."""
    return topic_defaults(settings) | usable_overrides(overrides, settings)


def effective_log_config(overrides: Mapping[str, str], settings: BrokerSettings) -> LogConfig:
    """Return the `LogConfig` that is in force for the logs of a topic: these overrides, and the broker's defaults for all other
    settings."""
    values = effective_values(overrides, settings)
    chosen: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
    policy = values["cleanup.policy"]
    assert isinstance(policy, tuple)
    chosen["cleanup_policy"] = frozenset(policy)
    if chosen["internal_segment_bytes"] is not None:
        chosen["segment_bytes"] = chosen["internal_segment_bytes"]
    chosen["accepts_append_time"] = settings.release_behaviour.accepts_append_time
    return LogConfig(**{name: value for name, value in chosen.items() if name in _LOG_CONFIG_FIELDS})


def internal_topic_configs(name: str, settings: BrokerSettings) -> dict[str, str]:
    """Return the overrides with which the broker creates an internal topic; {} for any other topic."""
    if name == CONSUMER_OFFSETS:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        }
    if name == TRANSACTION_STATE:
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
    if name == SHARE_GROUP_STATE:
        return {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(settings.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
            "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
        }
    return {}


def internal_topic_partitions(name: str, settings: BrokerSettings) -> int:
    """Return the number of partitions with which the broker creates the internal topic `name`, such as offsets.topic.num.partitions for
    `__consumer_offsets`."""
    if name == CONSUMER_OFFSETS:
        return settings.offsets_topic_num_partitions
    if name == SHARE_GROUP_STATE:
        return settings.share_coordinator_state_topic_num_partitions
    return settings.transaction_state_log_num_partitions


def internal_topic_replicas(name: str, settings: BrokerSettings) -> int:
    """Return the replication factor with which a cluster broker creates an internal topic."""
    if name == CONSUMER_OFFSETS:
        return settings.offsets_topic_replication_factor
    if name == SHARE_GROUP_STATE:
        return settings.share_coordinator_state_topic_replication_factor
    return settings.transaction_state_log_replication_factor

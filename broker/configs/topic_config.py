"""A topic's configuration: checking overrides, and the values its logs run with.

Rules that hold inside:
- The value in force is the topic's override, else the first broker setting of the key's synonyms that is set, else the key's default.
- Overrides are kept as the text that the client sent and are parsed wherever they are used; they were checked when they were set here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.broker.core.config_keys import InvalidConfig, Value
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings, topic_defaults
from ottla.broker.core.topic_keys import TOPIC_KEYS
from ottla.protocol.error_codes import ErrorCode

_LOG_CONFIG_FIELDS = frozenset(item.name for item in fields(LogConfig))


def check_topic_configs(overrides: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raises `Rejected(INVALID_CONFIG)` when a topic could not run with these overrides (Kafka's `LogConfig.validate`)."""
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
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


def usable_overrides(overrides: Mapping[str, str]) -> dict[str, Value]:
    """The typed values of the overrides that mean something here: a log that another Kafka wrote may hold keys and values that do not."""
    values = {}
    for name, text in overrides.items():
        if name in TOPIC_KEYS:
            with contextlib.suppress(InvalidConfig):
                values[name] = TOPIC_KEYS[name].parse(text)
    return values


def effective_values(overrides: Mapping[str, str], settings: BrokerSettings) -> dict[str, Value]:
    """The typed value in force for every topic key."""
    return topic_defaults(settings) | usable_overrides(overrides)


def effective_log_config(overrides: Mapping[str, str], settings: BrokerSettings) -> LogConfig:
    """What a topic's logs run with."""
    values = effective_values(overrides, settings)
    chosen: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
    policy = values["cleanup.policy"]
    assert isinstance(policy, tuple)
    chosen["cleanup_policy"] = frozenset(policy)
    if chosen["internal_segment_bytes"] is not None:
        chosen["segment_bytes"] = chosen["internal_segment_bytes"]
    return LogConfig(**{name: value for name, value in chosen.items() if name in _LOG_CONFIG_FIELDS})


def internal_topic_configs(name: str, settings: BrokerSettings) -> dict[str, str]:
    """The overrides that the broker gives its own topics when it creates them; {} for any other name."""
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
    return {}


def internal_topic_partitions(name: str, settings: BrokerSettings) -> int:
    """How many partitions the broker gives its own topic."""
    return settings.offsets_topic_num_partitions if name == CONSUMER_OFFSETS else settings.transaction_state_log_num_partitions


def internal_topic_replicas(name: str, settings: BrokerSettings) -> int:
    """How many replicas a member of a cluster asks for its own topic."""
    if name == CONSUMER_OFFSETS:
        return settings.offsets_topic_replication_factor
    return settings.transaction_state_log_replication_factor

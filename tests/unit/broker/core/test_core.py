"""The tables of broker/core: limits, topic configs, and settings without effect."""

from __future__ import annotations

import pytest

from ottla.broker.core import limits
from ottla.broker.core.config_keys import InvalidConfig
from ottla.broker.core.ignored_settings import IGNORED_NAMES, is_ignored
from ottla.broker.core.settings import BROKER_KEYS, TOPIC_KEYS


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("cleanup.policy", "compact,delete", "compact,keep"),
        ("compression.type", "zstd", "brotli"),
        ("compression.gzip.level", "-1", "0"),
        ("segment.bytes", "1048576", "1048575"),
        ("min.cleanable.dirty.ratio", "1", "1.01"),
        ("message.timestamp.type", "LogAppendTime", "logappendtime"),
        ("retention.ms", "-1", "-2"),
        ("remote.storage.enable", "false", "true"),
        ("leader.replication.throttled.replicas", "0:1,1:1", "0"),
    ],
)
def test_a_topic_key_accepts_what_kafka_accepts(name: str, good: str, bad: str) -> None:
    TOPIC_KEYS[name].parse(good)
    with pytest.raises(InvalidConfig):
        TOPIC_KEYS[name].parse(bad)


@pytest.mark.parametrize(
    "name", ["num.io.threads", "controller.performance.sample.period.ms", "sasl.login.read.timeout.ms", "listener.name.x.num.io.threads"]
)
def test_kafka_settings_without_effect_are_known(name: str) -> None:
    assert is_ignored(name)


@pytest.mark.parametrize(
    "name",
    ["num.io.thread", "nonsense", "log.segment.byte", "quota.window.number", "metadata.log.segment.byte", "listener.name.x.nonsense"],
)
def test_a_misspelt_setting_is_not_ignored(name: str) -> None:
    assert not is_ignored(name)


def test_no_broker_setting_is_listed_as_ignored() -> None:
    assert not IGNORED_NAMES & set(BROKER_KEYS)


def test_the_limits_of_one_connection_fit_into_the_total() -> None:
    assert limits.WRITE_LOW_BYTES < limits.WRITE_HIGH_BYTES < limits.TOTAL_BUFFERED_BYTES

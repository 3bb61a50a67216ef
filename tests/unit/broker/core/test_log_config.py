"""Defaults are Kafka's (TopicConfig), and the derived questions follow the policy list."""

import dataclasses

import pytest

from ottla.broker.core.log_config import LogConfig


def test_defaults_are_those_of_kafka() -> None:
    config = LogConfig()
    assert (config.segment_bytes, config.segment_ms, config.segment_index_bytes) == (1 << 30, 7 * 86_400_000, 10 << 20)
    assert (config.retention_ms, config.retention_bytes) == (7 * 86_400_000, -1)
    assert (config.max_message_bytes, config.index_interval_bytes) == (1_048_588, 4096)


@pytest.mark.parametrize(
    ("policy", "deletes", "compacts"),
    [((), False, False), (("delete",), True, False), (("compact",), False, True), (("compact", "delete"), True, True)],
)
def test_the_policy_list_says_which_housekeeping_applies(policy: tuple[str, ...], deletes: bool, compacts: bool) -> None:
    config = LogConfig(cleanup_policy=frozenset(policy))
    assert (config.deletes, config.compacts) == (deletes, compacts)


def test_a_config_cannot_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LogConfig().retention_ms = 1  # type: ignore[misc]  # the assignment is what must fail


def test_only_log_append_time_hands_stamping_to_the_broker() -> None:
    assert not LogConfig().log_append_time
    assert LogConfig(message_timestamp_type="LogAppendTime").log_append_time

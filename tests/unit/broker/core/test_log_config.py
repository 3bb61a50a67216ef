"""LogConfig has Kafka's defaults (TopicConfig), and its derived properties follow the cleanup policy."""

import dataclasses

import pytest

from ottla.broker.core.log_config import LogConfig


def test_defaults_are_kafkas() -> None:
    config = LogConfig()
    assert (config.segment_bytes, config.segment_ms, config.segment_index_bytes) == (1 << 30, 7 * 86_400_000, 10 << 20)
    assert (config.retention_ms, config.retention_bytes) == (7 * 86_400_000, -1)
    assert (config.max_message_bytes, config.index_interval_bytes) == (1_048_588, 4096)


@pytest.mark.parametrize(
    ("policy", "deletes", "compacts"),
    [((), False, False), (("delete",), True, False), (("compact",), False, True), (("compact", "delete"), True, True)],
)
def test_cleanup_policy_selects_retention_and_compaction(policy: tuple[str, ...], deletes: bool, compacts: bool) -> None:
    config = LogConfig(cleanup_policy=frozenset(policy))
    assert (config.deletes, config.compacts) == (deletes, compacts)


def test_a_log_config_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LogConfig().retention_ms = 1  # type: ignore[misc]  # the assignment is what must fail


def test_batches_are_stamped_by_the_broker_only_with_log_append_time() -> None:
    assert not LogConfig().log_append_time
    assert LogConfig(message_timestamp_type="LogAppendTime").log_append_time

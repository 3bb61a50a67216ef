"""Meters of clients' usage. Throttle times are compared with Kafka's own classes in tests/golden/test_quotas.py."""

from __future__ import annotations

from ottla.broker.quotas.clients import UsageQuota
from ottla.broker.quotas.rates import INT32_MAX, Windows, rounded


def quota(limit: float = 10.0) -> UsageQuota:
    found = UsageQuota("consumer_byte_rate", Windows())
    found.change({frozenset([("client-id", None)]): {"consumer_byte_rate": limit}})
    return found


def test_take_back_reverses_recorded_usage() -> None:
    found = quota()
    assert found.record("u", "c", 1_000, 0) == 90_000
    found.unrecord("u", "c", 1_000, 0)
    assert found.record("u", "c", 100, 0) == 0


def test_quota_of_nan_throttles_no_client() -> None:
    found = quota(float("nan"))
    assert found.record("u", "c", 1e9, 0) == 0
    assert rounded(found.max_unthrottled_usage("u", "c", 0)) == 0  # as Java rounds it: one batch at a time


def test_a_throttle_time_fits_into_its_response_field() -> None:
    assert quota(1e-9).record("u", "c", 1e9, 0) == INT32_MAX


def test_a_client_can_use_all_but_one_window_at_once() -> None:
    assert quota().max_unthrottled_usage("u", "c", 0) == 100.0
    assert UsageQuota("consumer_byte_rate", Windows()).max_unthrottled_usage("u", "c", 0) > 1e18


def test_without_quotas_nothing_is_measured() -> None:
    found = UsageQuota("consumer_byte_rate", Windows())
    assert found.record("u", "c", 1e12, 0) == 0
    assert found.measured == 0

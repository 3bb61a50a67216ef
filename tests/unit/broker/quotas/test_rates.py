"""Rates and token buckets; their numbers are compared with Kafka's own classes in tests/golden/test_quotas.py."""

from __future__ import annotations

from ottla.broker.quotas.rates import Rate, TokenBucket, Windows

WINDOWS = Windows(3, 1_000)


def test_a_burst_is_spread_over_all_windows_but_one() -> None:
    rate = Rate(WINDOWS)
    rate.record(100, 5)
    assert rate.measure(5) == 50.0


def test_samples_older_than_the_windows_are_not_counted() -> None:
    rate = Rate(WINDOWS)
    rate.record(100, 0)
    assert rate.measure(2_999) == 100 / 2.999
    assert rate.measure(3_000) == 0.0


def test_the_rate_is_within_the_limit_after_the_returned_wait() -> None:
    rate = Rate(WINDOWS)
    rate.record(1_000, 0)
    wait_ms = rate.wait_ms(100.0, 0)
    assert wait_ms == 8_000
    assert rate.wait_ms(100.0, wait_ms) == 0


def test_a_token_bucket_starts_full_and_can_be_overdrawn_once() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.take(10, 2.0, 100)
    assert bucket.left(2.0, 100) == -4.0
    assert bucket.wait_ms(2.0, 100) == 2_000
    assert bucket.left(2.0, 2_100) == 0.0
    assert bucket.left(2.0, 10**9) == 6.0

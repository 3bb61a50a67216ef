"""What is kept of clients' use; how long they wait is compared with Kafka's own classes in tests/golden/test_quotas.py."""

from __future__ import annotations

from ottla.broker.quotas.clients import UseQuota
from ottla.broker.quotas.rates import INT32_MAX, Windows, rounded


def quota(limit: float = 10.0) -> UseQuota:
    found = UseQuota("consumer_byte_rate", Windows())
    found.change({frozenset([("client-id", None)]): {"consumer_byte_rate": limit}})
    return found


def test_what_is_taken_back_was_not_used() -> None:
    found = quota()
    assert found.use("u", "c", 1_000, 0) == 90_000
    found.take_back("u", "c", 1_000, 0)
    assert found.use("u", "c", 100, 0) == 0


def test_a_quota_that_is_no_number_limits_nobody_and_breaks_nothing() -> None:
    found = quota(float("nan"))
    assert found.use("u", "c", 1e9, 0) == 0
    assert rounded(found.most_at_once("u", "c", 0)) == 0  # as Java rounds it: one batch at a time


def test_a_wait_is_one_that_an_answer_can_tell() -> None:
    assert quota(1e-9).use("u", "c", 1e9, 0) == INT32_MAX


def test_what_can_be_used_at_once_is_all_but_one_window() -> None:
    assert quota().most_at_once("u", "c", 0) == 100.0
    assert UseQuota("consumer_byte_rate", Windows()).most_at_once("u", "c", 0) > 1e18


def test_without_quotas_nothing_is_measured() -> None:
    found = UseQuota("consumer_byte_rate", Windows())
    assert found.use("u", "c", 1e12, 0) == 0
    assert found.measured == 0

from __future__ import annotations

import pytest

from ottla.broker.core import limits
from ottla.broker.quotas.connections import ConnectionQuota
from ottla.broker.quotas.rates import INT32_MAX, Windows

ANY = INT32_MAX


def quota(**limits: float) -> ConnectionQuota:
    found = ConnectionQuota(Windows())
    found.change(
        {frozenset([("ip", None if name == "default" else name)]): {"connection_creation_rate": at} for name, at in limits.items()}
    )
    return found


def test_connections_above_the_brokers_rate_are_accepted_one_after_the_other() -> None:
    found = quota()
    waits = [found.accept("L", "h", 1, 0).wait_ms for _ in range(14)]
    assert waits[:10] == [0] * 10
    assert waits[10:] == [1_000, 2_000, 3_000, 4_000]
    assert found.accept("M", "h", 1, 0).wait_ms == 1_000, "another listener is not held up by those that wait there"


def test_a_listener_for_brokers_is_not_delayed() -> None:
    found = quota()
    assert [found.accept("L", "h", 1, 0, for_brokers=True).wait_ms for _ in range(20)] == [0] * 20


def test_every_listener_has_its_own_rate() -> None:
    for for_brokers in (False, True):
        found = quota()
        waits = [found.accept("L", "h", ANY, 0, listener_rate=1, for_brokers=for_brokers).wait_ms for _ in range(12)]
        assert waits == [*([0] * 10), 1_000, 2_000]
        assert found.accept("M", "h", ANY, 0, listener_rate=1).wait_ms == 0
    both = quota()
    assert [both.accept("L", "h", 1, 0, listener_rate=100).wait_ms for _ in range(11)][-1] == 1_000, "the narrower one holds"


def test_connections_above_their_addresss_rate_are_refused_and_not_counted() -> None:
    found = quota(h=1.0)
    accepted = [found.accept("L", "h", ANY, 0) for _ in range(30)]
    assert [each.refused for each in accepted] == [False] * 10 + [True] * 20
    assert {each.wait_ms for each in accepted[10:]} == {1_000}
    assert not found.accept("L", "other", ANY, 0).refused
    assert found.accept("L", "h", ANY, 10_999).refused
    assert not found.accept("L", "h", ANY, 11_000).refused


def test_the_default_quota_applies_to_each_address_without_its_own() -> None:
    found = quota(default=1.0, h=5.0)
    assert sum(not found.accept("L", "h", ANY, 0).refused for _ in range(100)) == 50
    assert sum(not found.accept("L", "other", ANY, 0).refused for _ in range(100)) == 10


def test_a_rate_of_zero_delays_each_connection_by_a_window() -> None:
    assert quota().accept("L", "h", 0, 0).wait_ms == 1_000


def test_a_burst_delays_later_connections_no_longer_than_a_clients_timeout() -> None:
    found = quota()
    accepted = [found.accept("L", "h", 10, 0) for _ in range(100_000)]
    assert max(each.wait_ms for each in accepted if not each.refused) <= limits.ACCEPT_WAIT_MS + 1_000
    assert accepted[-1] == (1_000, True)
    assert not found.accept("L", "h", 10, 2_000).refused


@pytest.mark.parametrize(
    ("of_quota", "of_peer"),
    [("0:0:0:0:0:0:0:1", "::1"), ("FE80::1", "fe80::1%eth0"), ("::ffff:10.0.0.9", "10.0.0.9"), ("host.example", "host.example")],
)
def test_notations_of_the_same_address_count_as_one(of_quota: str, of_peer: str) -> None:
    found = quota(**{of_quota: 1.0})
    assert [found.accept("L", of_peer, ANY, 0).refused for _ in range(11)] == [False] * 10 + [True]

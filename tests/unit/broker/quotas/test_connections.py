"""How fast connections may come."""

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


def test_those_beyond_the_brokers_rate_are_accepted_one_after_the_other_later() -> None:
    found = quota()
    waits = [found.accept("L", "h", 1, 0).wait_ms for _ in range(14)]
    assert waits[:10] == [0] * 10
    assert waits[10:] == [1_000, 2_000, 3_000, 4_000]
    assert found.accept("M", "h", 1, 0).wait_ms == 1_000, "another listener is not held up by those that wait there"


def test_a_listener_for_brokers_is_not_held_up() -> None:
    found = quota()
    assert [found.accept("L", "h", 1, 0, for_brokers=True).wait_ms for _ in range(20)] == [0] * 20


def test_a_listener_has_a_rate_of_its_own_one_for_brokers_too() -> None:
    for for_brokers in (False, True):
        found = quota()
        waits = [found.accept("L", "h", ANY, 0, listener_rate=1, for_brokers=for_brokers).wait_ms for _ in range(12)]
        assert waits == [*([0] * 10), 1_000, 2_000]
        assert found.accept("M", "h", ANY, 0, listener_rate=1).wait_ms == 0
    both = quota()
    assert [both.accept("L", "h", 1, 0, listener_rate=100).wait_ms for _ in range(11)][-1] == 1_000, "the narrower one holds"


def test_those_beyond_their_addresss_rate_are_refused_and_do_not_count() -> None:
    found = quota(h=1.0)
    accepted = [found.accept("L", "h", ANY, 0) for _ in range(30)]
    assert [each.refused for each in accepted] == [False] * 10 + [True] * 20
    assert {each.wait_ms for each in accepted[10:]} == {1_000}
    assert not found.accept("L", "other", ANY, 0).refused
    assert found.accept("L", "h", ANY, 10_999).refused
    assert not found.accept("L", "h", ANY, 11_000).refused


def test_the_default_is_for_each_address_without_a_quota_of_its_own() -> None:
    found = quota(default=1.0, h=5.0)
    assert sum(not found.accept("L", "h", ANY, 0).refused for _ in range(100)) == 50
    assert sum(not found.accept("L", "other", ANY, 0).refused for _ in range(100)) == 10


def test_a_rate_of_nothing_waits_a_window_each_time() -> None:
    assert quota().accept("L", "h", 0, 0).wait_ms == 1_000


def test_a_burst_shuts_nobody_out_for_longer_than_a_client_waits() -> None:
    found = quota()
    accepted = [found.accept("L", "h", 10, 0) for _ in range(100_000)]
    assert max(each.wait_ms for each in accepted if not each.refused) <= limits.ACCEPT_WAIT_MS + 1_000
    assert accepted[-1] == (1_000, True)
    assert not found.accept("L", "h", 10, 2_000).refused


@pytest.mark.parametrize(
    ("of_quota", "of_peer"),
    [("0:0:0:0:0:0:0:1", "::1"), ("FE80::1", "fe80::1%eth0"), ("::ffff:10.0.0.9", "10.0.0.9"), ("host.example", "host.example")],
)
def test_an_address_is_one_however_it_is_written(of_quota: str, of_peer: str) -> None:
    found = quota(**{of_quota: 1.0})
    assert [found.accept("L", of_peer, ANY, 0).refused for _ in range(11)] == [False] * 10 + [True]

from __future__ import annotations

import pytest

from ottla.broker.replication.brokers import Brokers, BrokerStanding


def knowing(standing: BrokerStanding | None) -> Brokers:
    brokers = Brokers()
    if standing is not None:
        brokers.standings[2] = standing
    return brokers


@pytest.mark.parametrize(
    ("standing", "epoch", "expected"),
    [
        (BrokerStanding(7), 7, True),
        (BrokerStanding(7), -1, True),
        (BrokerStanding(7), None, False),
        (BrokerStanding(7), 6, False),
        (BrokerStanding(7), 8, False),
        (BrokerStanding(7, fenced=True), 7, False),
        (BrokerStanding(7, shutting_down=True), 7, False),
        (None, 7, False),
        (None, -1, False),
    ],
)
def test_only_the_living_incarnation_that_fetched_may_join(standing: BrokerStanding | None, epoch: int | None, expected: bool) -> None:
    assert knowing(standing).may_join(2, epoch) is expected


@pytest.mark.parametrize(
    ("standing", "epoch", "expected"),
    [
        (BrokerStanding(7), 6, True),
        (BrokerStanding(7), 7, False),
        (BrokerStanding(7), 8, False),
        (BrokerStanding(7), -1, False),
        (None, 6, False),
    ],
)
def test_an_incarnation_is_replaced_when_a_later_one_lives(standing: BrokerStanding | None, epoch: int, expected: bool) -> None:
    assert knowing(standing).has_replaced(2, epoch) is expected


@pytest.mark.parametrize(
    ("standing", "alive"),
    [(BrokerStanding(7), True), (BrokerStanding(7, shutting_down=True), True), (BrokerStanding(7, fenced=True), False)],
)
def test_a_fenced_broker_does_not_live(standing: BrokerStanding, alive: bool) -> None:
    assert knowing(standing).is_alive(2) is alive
    assert knowing(standing).has_replaced(2, 6) is alive
    assert not knowing(None).is_alive(2)

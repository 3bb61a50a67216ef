from __future__ import annotations

import pytest

from ottla.broker.replication.brokers import BrokerLiveness, Brokers


def knowing(liveness: BrokerLiveness | None) -> Brokers:
    brokers = Brokers()
    if liveness is not None:
        brokers.liveness[2] = liveness
    return brokers


@pytest.mark.parametrize(
    ("liveness", "epoch", "expected"),
    [
        (BrokerLiveness(7), 7, True),
        (BrokerLiveness(7), -1, True),
        (BrokerLiveness(7), None, False),
        (BrokerLiveness(7), 6, False),
        (BrokerLiveness(7), 8, False),
        (BrokerLiveness(7, fenced=True), 7, False),
        (BrokerLiveness(7, shutting_down=True), 7, False),
        (None, 7, False),
        (None, -1, False),
    ],
)
def test_only_the_active_incarnation_that_fetched_may_join_the_isr(
    liveness: BrokerLiveness | None, epoch: int | None, expected: bool
) -> None:
    assert knowing(liveness).may_join(2, epoch) is expected


@pytest.mark.parametrize(
    ("liveness", "epoch", "expected"),
    [
        (BrokerLiveness(7), 6, True),
        (BrokerLiveness(7), 7, False),
        (BrokerLiveness(7), 8, False),
        (BrokerLiveness(7), -1, False),
        (None, 6, False),
    ],
)
def test_incarnation_is_replaced_when_a_later_one_is_active(liveness: BrokerLiveness | None, epoch: int, expected: bool) -> None:
    assert knowing(liveness).has_replaced(2, epoch) is expected


@pytest.mark.parametrize(
    ("liveness", "alive"),
    [(BrokerLiveness(7), True), (BrokerLiveness(7, shutting_down=True), True), (BrokerLiveness(7, fenced=True), False)],
)
def test_fenced_broker_is_not_alive(liveness: BrokerLiveness, alive: bool) -> None:
    assert knowing(liveness).is_alive(2) is alive
    assert knowing(liveness).has_replaced(2, 6) is alive
    assert not knowing(None).is_alive(2)

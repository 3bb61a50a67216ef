"""The judge of the simulated share group: which final states count as lost."""

from __future__ import annotations

import pytest

from ottla.broker.share.acknowledgement import AcknowledgeType
from ottla.broker.sim.sim_share_judge import LIMIT, Delivery, ShareGroupHistory
from ottla.broker.testing.contents import Stored, Visibility

OFFSET = ("t", 0, 0)


def history_of_deliveries(count: int) -> ShareGroupHistory:
    """Return the history of a record that was delivered `count` times, and released after each delivery but the last."""
    history = ShareGroupHistory([])
    history.topic_ids = {"t": b"t" * 16}
    for number in range(1, count + 1):
        delivery = Delivery(OFFSET, history.next_number(), number, b"v")
        history.delivered("m", delivery)
        if number < count:
            delivery.type = AcknowledgeType.RELEASE
            history.acknowledging({OFFSET[:2]: [delivery]})
            history.answered("m", [delivery], ok=True)
    assert history.wrong == []
    return history


@pytest.mark.parametrize(
    ("deliveries", "found"),
    [
        (LIMIT, []),
        (LIMIT - 1, ["('t', 0, 0) is lost: its last state is AVAILABLE after 0 deliveries"]),
    ],
)
def test_a_record_without_a_final_state_is_lost_unless_its_last_delivery_expired(deliveries: int, found: list[str]) -> None:
    stored = Stored(*OFFSET, None, b"v", -1, -1, -1, Visibility.PLAIN)
    history = history_of_deliveries(deliveries)
    assert history.judge([stored], []) == found
    assert history.counts == (deliveries, 0, 1 if deliveries == LIMIT else 0)

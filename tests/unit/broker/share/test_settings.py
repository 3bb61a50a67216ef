from __future__ import annotations

import pytest

from ottla.broker.share.in_flight import RecordState
from ottla.broker.share.settings import ShareSettings


@pytest.mark.parametrize(("limit", "throttle_from"), [(2, 2), (5, 3), (10, 5)])
def test_fewer_records_are_delivered_together_from_half_the_limit_on(limit: int, throttle_from: int) -> None:
    assert ShareSettings(delivery_count_limit=limit).throttle_from == throttle_from


def test_records_that_are_given_up_are_archiving_only_in_a_group_with_a_dead_letter_queue() -> None:
    assert ShareSettings().undeliverable_state is RecordState.ARCHIVED
    assert ShareSettings(dead_letter_topic="dlq.q").undeliverable_state is RecordState.ARCHIVING

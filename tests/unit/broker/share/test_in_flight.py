from __future__ import annotations

import pytest

from ottla.broker.share.in_flight import VALID_TRANSITIONS, InFlight, InFlightBatch, InFlightState, RecordState

LIMIT = 5


def held(deadline: int = 100, count: int = 1) -> InFlightState:
    return InFlightState(RecordState.ACQUIRED, count, "m", deadline)


def test_every_state_has_its_moves_and_terminal_states_have_none() -> None:
    assert VALID_TRANSITIONS.keys() == set(RecordState)
    assert [state for state, moves in VALID_TRANSITIONS.items() if not moves] == [state for state in RecordState if state.is_terminal]


@pytest.mark.parametrize("state", [RecordState.ACKNOWLEDGED, RecordState.ARCHIVED, RecordState.AVAILABLE])
def test_a_state_moves_only_where_the_table_says(state: RecordState) -> None:
    found = InFlightState(state, 1)
    assert not any(found.move(to, LIMIT) for to in RecordState if to not in VALID_TRANSITIONS[state])


def test_a_record_delivered_as_often_as_the_limit_is_archived_when_it_is_released() -> None:
    state = held(count=LIMIT)
    assert state.move(RecordState.AVAILABLE, LIMIT)
    assert (state.state, state.delivery_count) == (RecordState.ARCHIVED, LIMIT)


def test_a_transition_hides_the_record_until_its_write_succeeds() -> None:
    state = held()
    assert state.begin("update", RecordState.AVAILABLE, LIMIT)
    assert not state.is_available
    assert not state.begin("other", RecordState.ACKNOWLEDGED, LIMIT)
    state.commit()
    assert state.is_available


def test_a_failed_write_gives_the_record_back_to_its_owner() -> None:
    state = held(deadline=100)
    state.begin("update", RecordState.ACKNOWLEDGED, LIMIT)
    state.roll_back(now_ms=99)
    assert (state.state, state.member_id, state.lock_deadline_ms) == (RecordState.ACQUIRED, "m", 100)


@pytest.mark.parametrize(("count", "state"), [(1, RecordState.AVAILABLE), (LIMIT, RecordState.ARCHIVED)])
def test_a_failed_write_after_the_lock_has_expired_makes_the_record_available_or_archives_it(count: int, state: RecordState) -> None:
    found = held(deadline=100, count=count)
    found.begin("update", RecordState.ACKNOWLEDGED, LIMIT)
    found.roll_back(now_ms=100)
    assert (found.state, found.member_id) == (state, "")


def test_archived_record_stays_archived_when_its_pending_write_fails() -> None:
    state = held()
    state.begin("update", RecordState.AVAILABLE, LIMIT)
    state.archive()
    state.roll_back(now_ms=0)
    assert state.is_settled


def test_splitting_a_batch_keeps_the_transition_in_all_parts() -> None:
    batch = InFlightBatch(10, 19, held())
    batch.whole.begin("update", RecordState.ACKNOWLEDGED, LIMIT)
    (middle,) = batch.part(13, 15)
    assert [(run.first_offset, run.last_offset) for run in batch.runs] == [(10, 12), (13, 15), (16, 19)]
    assert {run.state.change for run in batch.runs} == {"update"}
    middle.state.commit()
    assert [run.state.change for run in batch.runs] == ["update", None, "update"]


def test_batches_are_found_by_offset() -> None:
    in_flight = InFlight()
    for first in (30, 10, 20):
        in_flight.add(InFlightBatch(first, first + 4, held()))
    assert [batch.first_offset for batch in in_flight] == [10, 20, 30]
    assert in_flight.floor(9) is None
    assert [batch.first_offset for batch in in_flight.overlapping(22, 30)] == [20, 30]
    assert [batch.first_offset for batch in in_flight.beginning_in(11, 20)] == [20]
    behind = in_flight.higher(20)
    assert behind is not None
    assert behind.first_offset == 30
    in_flight.remove_before(20)
    assert in_flight.first.first_offset == 20

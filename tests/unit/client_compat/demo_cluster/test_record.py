from __future__ import annotations

from client_compat.demo_cluster.record import Sample, Span, State, spans


def looks(*states: State) -> list[Sample]:
    return [Sample(100 * at, {1: state}) for at, state in enumerate(states)]


def test_a_state_lasts_until_the_look_that_saw_another() -> None:
    found = spans(looks(State.SERVES, State.SERVES, State.DEAD, State.FENCED, State.FENCED), lambda sample: sample.states[1])
    assert found == [Span(0, 200, State.SERVES), Span(200, 300, State.DEAD), Span(300, 400, State.FENCED)]


def test_without_a_look_nothing_held() -> None:
    assert spans([], lambda sample: sample.at_ms) == []

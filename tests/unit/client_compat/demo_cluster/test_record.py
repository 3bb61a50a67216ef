from __future__ import annotations

from client_compat.demo_cluster.record import Sample, Span, State, spans


def looks(*states: State) -> list[Sample]:
    return [Sample(100 * at, {1: state}) for at, state in enumerate(states)]


def test_span_lasts_until_the_sample_with_another_state() -> None:
    found = spans(looks(State.SERVES, State.SERVES, State.DEAD, State.FENCED, State.FENCED), lambda sample: sample.states[1])
    assert found == [Span(0, 200, State.SERVES), Span(200, 300, State.DEAD), Span(300, 400, State.FENCED)]


def test_no_samples_give_no_spans() -> None:
    assert spans([], lambda sample: sample.at_ms) == []

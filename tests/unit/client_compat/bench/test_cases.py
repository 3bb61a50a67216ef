"""The list of benchmark cases: names are unique, and every figure that a load returns is declared by its case."""

from __future__ import annotations

from client_compat.bench.cases import CASES
from client_compat.bench.model import OURS, Ability
from client_compat.bench.peers.all import PEERS


def test_case_and_figure_names_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        assert len({figure.name for figure in case.figures}) == len(case.figures)


def test_ottla_has_every_figure_and_kafka_all_but_growth_and_marks() -> None:
    for case in CASES:
        for figure in case.figures:
            assert case.blank(PEERS[OURS], figure) is None
            assert (case.blank(PEERS["kafka"], figure) is None) == case.needs.isdisjoint({Ability.GROWTH, Ability.MARKS})


def test_cluster_cases_are_for_peers_that_can_make_a_cluster() -> None:
    for case in filter(lambda case: case.of_cluster, CASES):
        assert [peer.name for peer in PEERS.values() if case.possible(peer)] == [OURS, "kafka"]
    assert [peer.name for peer in PEERS.values() if peer.make_cluster is not None] == [OURS, "kafka"]

"""The benchmark's page and charts, as readers of the documentation see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.bench import charts, pages
from client_compat.bench.cases import CASES
from client_compat.bench.model import OURS, Results
from client_compat.bench.peers.all import PEERS


def results() -> Results:
    """Return results in which Apache Kafka is twice as good as Ottla in every figure, and all other peers equal Ottla."""
    found = Results(1, list(PEERS), about={"cores": "2", "machine": "m", "python": "3", "ottla": "4"})
    for case in CASES:
        for peer in PEERS.values():
            if not case.possible(peer):
                continue
            values = {}
            for figure in case.figures:
                if case.blank(peer, figure) is None:
                    factor = 1.0 if peer.name != "kafka" else 2.0 if figure.more_is_better else 0.5
                    values[figure.name] = 10 * factor
            found.add(case, peer.name, values)
    return found


def test_the_page_shows_every_section_with_its_chart_and_its_tables(tmp_path: Path) -> None:
    (page,) = pages.write(results(), CASES, list(PEERS.values()), tmp_path)
    text = page.read_text()
    for section in {case.section for case in CASES}:
        assert f"## {section}" in text
    pictures = sorted((tmp_path / "images").iterdir())
    assert all(f"](images/{picture.name})" in text for picture in pictures)
    assert all(picture.read_text().lstrip().startswith("<?xml") for picture in pictures)
    assert PEERS["kafka"].title in text


def test_the_same_results_give_the_same_chart(tmp_path: Path) -> None:
    first, second = (charts.write(results(), CASES[:1], list(PEERS.values()), tmp_path / name)[0] for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


def test_bar_points_right_where_ottla_is_better_for_either_direction_of_the_figure() -> None:
    found = results()
    for case in CASES:
        for figure in case.figures:
            if case.possible(PEERS["kafka"]):
                assert charts.times_better(figure, found.ratios(case, figure, "kafka")) == [pytest.approx(0.5)]
    assert OURS in found.peers

"""Two simulated days of a small busy cluster; `make soak` simulates a week."""

from __future__ import annotations

import logging

import pytest

from tests.support.soak import SHORT_DAYS, SHORT_TICKS, grown, live

GROWTH, FEW = 0.1, 8
"""A short day has little of everything, so one piece counts for more."""


def test_a_cluster_holds_no_more_after_a_second_day_than_after_the_first(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # of every jump the nodes say that the others did not answer for so long
    lines: list[str] = []
    first, last = live(SHORT_DAYS, SHORT_TICKS, lines.append)
    assert list(grown(first, last, GROWTH, FEW)) == [], lines


def test_growth_counts_only_above_both_five_objects_and_five_percent() -> None:
    first = {"broker 1": {"tasks": 5, "producers": 100, "objects": 1000}}
    assert list(grown(first, {"broker 1": {"tasks": 10, "producers": 105, "objects": 1050}})) == []
    assert list(grown(first, {"broker 1": {"tasks": 11, "producers": 106, "objects": 900}})) == [
        "broker 1: tasks 5 -> 11",
        "broker 1: producers 100 -> 106",
    ]

from __future__ import annotations

import logging

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.state_lines import StateLines

LOGGER = logging.getLogger("ottla.broker.test_state_lines")


class Harness:
    """The clock and the logger that StateLines uses, and the lines that it wrote."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.clock = VirtualClock()
        self.lines = StateLines(LOGGER, self.clock.mono_ms)
        self._caplog = caplog

    def away(self, why: str = "refused") -> None:
        self.lines.report("away", logging.WARNING, "No controller: %s", why)

    def back(self) -> None:
        self.lines.ended("away", "The controller is back")

    @property
    def written(self) -> list[str]:
        return self._caplog.messages


@pytest.fixture
def harness(caplog: pytest.LogCaptureFixture) -> Harness:
    caplog.set_level(logging.INFO, LOGGER.name)
    return Harness(caplog)


def test_a_lasting_state_is_logged_when_it_begins_and_then_after_doubling_pauses(harness: Harness) -> None:
    told_at = []
    for _ in range(36_000):  # an hour, ten times a second
        before = len(harness.written)
        harness.away()
        if len(harness.written) > before:
            told_at.append(harness.clock.mono_ms())
        harness.clock.advance(100)
    assert told_at == [0, 10_000, 30_000, 70_000, 150_000, 310_000, 630_000, 1_230_000, 1_830_000, 2_430_000, 3_030_000]


def test_a_repeated_line_has_the_current_arguments_the_count_and_the_duration(harness: Harness) -> None:
    harness.away("refused")
    harness.away("timed out")
    harness.clock.advance(limits.STATE_STILL_MS)
    harness.away("no address")
    assert harness.written == ["No controller: refused", "No controller: no address (still, 3 times in 10 s)"]


def test_the_end_of_a_state_is_logged_once(harness: Harness) -> None:
    harness.back()
    harness.away()
    harness.clock.advance(4_000)
    harness.back()
    harness.back()
    assert harness.written == ["No controller: refused", "The controller is back (after 4 s)"]


def test_a_flapping_state_is_logged_like_a_lasting_one(harness: Harness) -> None:
    for _ in range(90):
        harness.away()
        harness.clock.advance(50)
        harness.back()
        harness.clock.advance(50)
    assert harness.written == ["No controller: refused", "The controller is back (after 0 s)"]
    harness.clock.advance(limits.STATE_STILL_MS)
    harness.away()
    harness.back()
    assert harness.written[2:] == ["No controller: refused (still, 91 times in 19 s)", "The controller is back (after 19 s)"]


def test_a_state_that_begins_again_after_the_calm_time_is_new(harness: Harness) -> None:
    harness.away()
    harness.back()
    harness.clock.advance(limits.STATE_CALM_MS)
    harness.away("again")
    assert harness.written[-1] == "No controller: again"


def test_states_are_logged_independently(harness: Harness) -> None:
    harness.away()
    harness.lines.report("slow", logging.WARNING, "Slow")
    assert harness.written == ["No controller: refused", "Slow"]


def test_all_states_end_with_one_line(harness: Harness) -> None:
    harness.lines.all_ended("All is well")
    harness.away()
    harness.clock.advance(3_000)
    harness.lines.report("slow", logging.WARNING, "Slow")
    for _ in range(2):
        harness.lines.all_ended("All is well")
    harness.away()
    assert harness.written == ["No controller: refused", "Slow", "All is well (after 3 s)"]


def test_the_number_of_remembered_states_is_limited(harness: Harness) -> None:
    for number in range(limits.STATES_MAX + 1):
        harness.lines.report(number, logging.WARNING, "%d", number)
    harness.lines.report(1, logging.WARNING, "one")
    harness.lines.report(0, logging.WARNING, "zero")
    assert harness.written[limits.STATES_MAX + 1 :] == ["zero"]


def test_only_the_first_line_has_the_traceback(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("a bug")
    for _ in range(2):
        harness.lines.report("bug", logging.ERROR, "Bug", error=error)
        harness.clock.advance(limits.STATE_STILL_MS)
    assert [record.exc_info is not None for record in caplog.records] == [True, False]

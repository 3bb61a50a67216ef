from __future__ import annotations

import logging

from ottla.broker.core import limits
from ottla.broker.core.peer_log import PeerLines, shown

END = limits.PEER_LINES_WINDOW_S


def test_text_from_a_peer_is_cut_at_the_limit_with_the_number_of_missing_characters() -> None:
    assert shown("a" * limits.PEER_TEXT_CHARS) == repr("a" * limits.PEER_TEXT_CHARS)
    assert shown("a" * 30_000) == f"{'a' * limits.PEER_TEXT_CHARS!r} and {30_000 - limits.PEER_TEXT_CHARS} more characters"


def test_text_from_a_peer_cannot_forge_a_log_line() -> None:
    assert "\n" not in shown("me\n12:00:00 INFO broker: Stopped")
    assert "\x1b" not in shown("\x1b[2J")


def test_only_the_first_lines_of_a_window_are_written() -> None:
    lines = PeerLines()
    written = [lines.admit("x", 5.0 + i / 1000) for i in range(limits.PEER_LINES + 25)]
    assert written == [0] * limits.PEER_LINES + [None] * 25
    assert lines.admit("x", 5.0 + END - 0.001) is None
    assert lines.admit("x", 5.0 + END) == 26
    assert lines.admit("x", 5.0 + END) == 0


def test_a_window_without_suppressed_lines_reports_no_count() -> None:
    lines = PeerLines()
    assert [lines.admit("x", END * i) for i in range(5)] == [0] * 5


def test_lines_of_one_kind_do_not_suppress_another_kind() -> None:
    lines = PeerLines()
    for _ in range(limits.PEER_LINES + 1):
        lines.admit("x", 0.0)
    assert lines.admit("y", 0.0) == 0


def test_a_clock_that_is_set_back_does_not_suppress_lines() -> None:
    lines = PeerLines()
    for _ in range(limits.PEER_LINES + 1):
        lines.admit("x", 1_000_000.0)
    assert lines.admit("x", 10.0) == 1


def test_the_lines_before_and_after_a_gap_mention_it() -> None:
    lines, written = PeerLines(), []
    for number in range(limits.PEER_LINES + 8):
        record = logging.LogRecord("peers", logging.WARNING, __file__, 1, "Closing %d", (number,), None)
        record.created = 0.0 if number <= limits.PEER_LINES + 6 else END
        if lines.filter(record):
            written.append(record.getMessage())
    assert written[:2] == ["Closing 0", "Closing 1"]
    assert written[-2:] == [
        f"Closing {limits.PEER_LINES - 1} (further such lines are counted, not written, for up to {END} s)",
        f"Closing {limits.PEER_LINES + 7} (7 such lines before it were suppressed)",
    ]

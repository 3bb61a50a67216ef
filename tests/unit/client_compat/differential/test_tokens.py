"""Times in the comparison of delegation tokens: a slow request makes no difference, another time does."""

from __future__ import annotations

from client_compat.differential.tokens import MINUTE_MS, Moment

NOW_MS = 1_700_000_000_000
QUICK, SLOW = Moment(NOW_MS, NOW_MS + 5), Moment(NOW_MS, NOW_MS + 45_000)


def test_time_is_relative_to_the_moment_the_request_was_handled() -> None:
    for handled_ms, moment in ((NOW_MS + 3, QUICK), (NOW_MS, SLOW), (NOW_MS + 31_000, SLOW), (NOW_MS + 45_000, SLOW)):
        assert moment.until(handled_ms) == "in 0 minutes"
        assert moment.until(handled_ms + 5 * MINUTE_MS) == "in 5 minutes"


def test_token_expiry_is_recognised_however_late_the_request_was() -> None:
    assert QUICK.until(NOW_MS + 59 * MINUTE_MS, NOW_MS + 59 * MINUTE_MS) == "at the token's end"
    assert QUICK.until(NOW_MS + 58 * MINUTE_MS, NOW_MS + 59 * MINUTE_MS) == "in 58 minutes"


def test_different_time_is_a_difference() -> None:
    assert QUICK.until(NOW_MS + 5 * MINUTE_MS + 10_000) == "in 5.17 minutes"
    assert QUICK.until(NOW_MS + 5 * MINUTE_MS - 10_000) == "in 4.83 minutes"
    assert SLOW.until(NOW_MS + 6 * MINUTE_MS) != "in 5 minutes"


def test_values_that_are_no_times_are_unchanged() -> None:
    assert [QUICK.until(value) for value in (0, -1)] == [0, -1]

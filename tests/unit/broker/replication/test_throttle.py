from __future__ import annotations

import pytest

from ottla.broker.replication.throttle import NO_LIMIT, Throttle


def throttled(rate: int, windows: int = 11, window_ms: int = 1_000) -> Throttle:
    throttle = Throttle(windows, window_ms)
    throttle.rate = rate
    return throttle


@pytest.mark.parametrize(
    ("replicas", "covered"),
    [
        ([], []),
        (["*"], [0, 1, 2]),
        (["0:7", "2:7", "1:8"], [0, 2]),
        (["1:8"], []),
        (["9" * 5_000 + ":7", "1:" + "9" * 5_000, "02:007"], [2]),
    ],
)
def test_throttled_replicas_setting_selects_the_covered_partitions(replicas: list[str], covered: list[int]) -> None:
    throttle = throttled(1)
    throttle.cover("t", replicas, 7)
    assert [index for index in range(3) if throttle.covers("t", index)] == covered
    assert not throttle.covers("u", 0)
    throttle.cover("t", [], 7)
    assert not throttle.covers("t", 0)


def test_throttle_without_a_rate_is_never_exceeded() -> None:
    throttle = throttled(NO_LIMIT)
    throttle.record(2**62, 0)
    assert not throttle.is_exceeded(0)


def test_exceeded_rate_recovers_after_a_pause() -> None:
    throttle = throttled(100)
    throttle.record(100, 0)
    assert not throttle.is_exceeded(0)
    throttle.record(400, 0)
    assert throttle.is_exceeded(4_999)
    assert not throttle.is_exceeded(5_000)


def test_bytes_before_the_windows_do_not_count() -> None:
    throttle = throttled(100)
    throttle.record(1_000_000, 0)
    assert throttle.is_exceeded(10_999)
    assert not throttle.is_exceeded(11_000)


def test_a_steady_flow_is_measured_over_eleven_seconds() -> None:
    throttle = throttled(100)
    for second in range(30):
        throttle.record(90, second * 1_000)
        assert not throttle.is_exceeded(second * 1_000 + 999)
    throttle.record(500, 30_000)
    assert throttle.is_exceeded(30_000)


def test_window_settings_change_the_measured_time() -> None:
    throttle = throttled(100, windows=2, window_ms=3_000)
    throttle.record(1_000_000, 0)
    assert throttle.is_exceeded(5_999)
    assert not throttle.is_exceeded(6_000)
    throttle.record(300, 10_000)
    assert not throttle.is_exceeded(10_000), "no rate is measured over less than a window"
    throttle.record(1, 10_000)
    assert throttle.is_exceeded(10_000)

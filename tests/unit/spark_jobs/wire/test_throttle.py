"""A limit of bytes per second, by a clock that the test advances."""

from __future__ import annotations

from ottla.spark_jobs.wire.throttle import Throttle


def test_throttle_waits_for_the_time_of_the_bytes_taken() -> None:
    time, waits = [0.0], []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        time[0] += seconds

    throttle = Throttle(1000, now=lambda: time[0], sleep=sleep)
    throttle.wait()
    throttle.took(1500)
    throttle.wait()
    assert waits == [1.5]
    time[0] += 60
    throttle.took(100)
    throttle.wait()
    assert [round(each, 6) for each in waits] == [1.5, 0.1]


def test_throttle_without_a_limit_never_waits() -> None:
    throttle = Throttle(0, now=lambda: 0.0, sleep=lambda _seconds: 1 / 0)
    throttle.took(1 << 40)
    throttle.wait()

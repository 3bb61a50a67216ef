"""The latency load: the requests that a stalled broker delays count with their delay, and how a percentile is computed."""

from __future__ import annotations

import socket
import threading

import pytest

from client_compat.bench.loads.latency import P50, P99, P999, Timetable, percentiles


def test_percentile_is_the_smallest_latency_that_covers_its_share() -> None:
    values = percentiles([number / 1_000 for number in range(1_000, 0, -1)])
    assert values == {P50: pytest.approx(500), P99: pytest.approx(990), P999: pytest.approx(999)}


def test_single_measurement_is_every_percentile() -> None:
    assert set(percentiles([0.25]).values()) == {250.0}


def test_delay_of_a_stalled_peer_counts_from_the_scheduled_send_time() -> None:
    ours, theirs = socket.socketpair()
    stall = threading.Event()
    with ours, theirs:
        timetable = Timetable(ours, [b"x"] * 20, rate=1_000)
        while timetable.since(19) < 0:
            timetable.wait([ours])
        stalled = threading.Timer(0.05, stall.set)
        stalled.start()
        assert stall.wait(5)
        assert timetable.since(0) >= 0.05 + 19 / 1_000
        assert timetable.since(0) - timetable.since(10) == pytest.approx(10 / 1_000, abs=0.005)
        timetable.wait([ours])
        assert theirs.recv(100) == b"x" * 20

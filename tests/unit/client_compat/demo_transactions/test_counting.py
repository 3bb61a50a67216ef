from __future__ import annotations

import pytest

from client_compat.demo_transactions.counting import Chunk, Increment, count, increments


def flight(carrier: str, hour: int) -> tuple[bytes, bytes]:
    return carrier.encode(), b'{"row":1,"hour":%d,"minute":5,"time_hour":"2013-01-01 23:00:00"}' % hour


def test_flights_are_counted_by_carrier_and_scheduled_hour() -> None:
    assert count([flight("UA", 5), flight("UA", 5), flight("UA", 15), flight("B6", 5)]) == {("UA", 5): 2, ("UA", 15): 1, ("B6", 5): 1}


def test_record_that_is_no_flight_raises() -> None:
    with pytest.raises(ValueError, match="without an hour"):
        count([(b"UA", b'{"time_hour":5}')])


def test_increments_of_a_chunk_sum_to_its_records_and_name_its_range() -> None:
    chunk = Chunk(3, 100, [flight("UA", 5), flight("B6", 7), flight("UA", 5)])
    found = list(increments(chunk))
    assert sum(i.n for i in found) == 3
    assert {(i.partition, i.first, i.end) for i in found} == {(3, 100, 103)}


def test_increment_round_trips_through_its_record() -> None:
    increment = Increment("9E", 6, 12, 3, 100, 103)
    assert Increment.parse(increment.value()) == increment
    assert increment.key == b"9E-06"

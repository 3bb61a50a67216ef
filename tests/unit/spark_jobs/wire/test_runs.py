"""A range of offsets as runs of batches: positions count fetched bytes, and an unreadable range is a stop of 0 bytes."""

from __future__ import annotations

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.spark_jobs.segment_reader import Run, Stop
from ottla.spark_jobs.wire import runs
from tests.support.wire_logs import FakeLeader, run_of_batches, segment


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    """A fake leader, to which every connection of the test leads."""
    made = FakeLeader(run_of_batches([(0, 5, 10)] * 4))

    class Reached:
        def __init__(self, _address: object) -> None:
            pass

        def __enter__(self) -> FakeLeader:
            return made

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(runs, "Cluster", Reached)
    return made


def test_positions_count_the_fetched_bytes(leader: FakeLeader) -> None:
    size = len(leader.batches[0])
    found = list(runs.wire_runs(segment(0, 20)))
    assert all(isinstance(each, Run) for each in found)
    assert [each.position + at for each in found for at in each.headers.positions] == [0, size, 2 * size, 3 * size]


def test_records_removed_by_retention_are_a_torn_stop(leader: FakeLeader) -> None:
    leader.start = 10
    stop, run = runs.wire_runs(segment(0, 20))
    assert stop == Stop(0, 0, "offsets 0 to 9: retention removed them while they were read", torn=True)
    assert run.position == 0


def test_offsets_that_a_broker_rejects_are_a_stop(leader: FakeLeader) -> None:
    leader.refused = dict.fromkeys(range(15), ErrorCode.CORRUPT_MESSAGE)
    stop, run = runs.wire_runs(segment(0, 20))
    assert (stop.size_bytes, stop.torn) == (0, False)
    assert list(run.headers.base_offsets) == [15]


def test_empty_range_sends_no_request(leader: FakeLeader) -> None:
    assert list(runs.wire_runs(segment(20, 20))) == []
    assert leader.fetched_offsets == []

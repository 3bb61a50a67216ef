"""Leader epochs and their start offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.storage.checkpoint_file import CorruptCheckpoint
from ottla.broker.storage.files import FILES
from ottla.broker.storage.leader_epochs import EpochStart, LeaderEpochs, decode_epochs


def epochs(directory: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs(FILES, directory)
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


def stored(made: LeaderEpochs) -> list[tuple[int, int]]:
    entries = decode_epochs(made.path.read_bytes())
    assert entries == list(made.entries)
    return [tuple(e) for e in entries]


@pytest.mark.parametrize(
    ("epoch", "start", "result"),
    [
        (7, 40, [(1, 0), (3, 10), (5, 20), (7, 40)]),
        (5, 20, [(1, 0), (3, 10), (5, 20)]),
        (5, 30, [(1, 0), (3, 10), (5, 20)]),
        (5, 15, [(1, 0), (3, 10), (5, 15)]),
        (7, 20, [(1, 0), (3, 10), (7, 20)]),
        (4, 40, [(1, 0), (3, 10), (4, 40)]),
        (2, 10, [(1, 0), (2, 10)]),
        (-1, 50, [(1, 0), (3, 10), (5, 20)]),
    ],
)
def test_assigned_epochs_and_offsets_increase(tmp_path: Path, epoch: int, start: int, result: list[tuple[int, int]]) -> None:
    made = epochs(tmp_path, (1, 0), (3, 10), (5, 20))
    made.assign(epoch, start)
    assert stored(made) == result
    assert made.latest == result[-1][0]


def test_the_end_of_an_epoch_is_the_start_of_the_next_known_one(tmp_path: Path) -> None:
    made = epochs(tmp_path, (1, 5), (3, 10), (5, 20))
    found = {e: made.end_offset_for(e, 99) for e in (-1, 0, 1, 2, 3, 4, 5, 6)}
    assert found == {-1: (-1, -1), 0: (0, 5), 1: (1, 10), 2: (1, 10), 3: (3, 20), 4: (3, 20), 5: (5, 99), 6: (-1, -1)}


@pytest.mark.parametrize("epoch", [-(2**31), -2, -1, 0, 1])
def test_a_log_without_epochs_has_no_end_offsets(tmp_path: Path, epoch: int) -> None:
    assert epochs(tmp_path).end_offset_for(epoch, 99) == (-1, -1)


def test_the_epoch_of_an_offset_is_the_last_started_at_or_before_it(tmp_path: Path) -> None:
    made = epochs(tmp_path, (1, 5), (3, 10))
    assert {o: made.epoch_at(o) for o in (4, 5, 9, 10, 99)} == {4: -1, 5: 1, 9: 1, 10: 3, 99: 3}


@pytest.mark.parametrize(("end", "result"), [(21, [(1, 0), (5, 20)]), (20, [(1, 0)]), (0, [])])
def test_truncating_the_end_removes_epochs_that_start_there(tmp_path: Path, end: int, result: list[tuple[int, int]]) -> None:
    made = epochs(tmp_path, (1, 0), (5, 20))
    made.truncate_from_end(end)
    assert stored(made) == result


@pytest.mark.parametrize(
    ("start", "result"),
    [(0, [(1, 0), (3, 10), (5, 20)]), (4, [(1, 4), (3, 10), (5, 20)]), (10, [(3, 10), (5, 20)]), (15, [(3, 15), (5, 20)]), (30, [(5, 30)])],
)
def test_moving_the_start_keeps_the_epoch_it_is_in(tmp_path: Path, start: int, result: list[tuple[int, int]]) -> None:
    made = epochs(tmp_path, (1, 0), (3, 10), (5, 20))
    made.truncate_from_start(start)
    assert stored(made) == result


@pytest.mark.parametrize("text", [b"0\n2\n3 0\n1 5\n", b"0\n2\n1 5\n2 5\n", b"0\n1\n1\n", b"0\n1\nx 1\n", b"2\n0\n"])
def test_unordered_or_non_numeric_entries_are_corrupt(text: bytes) -> None:
    with pytest.raises(CorruptCheckpoint, match="line"):
        decode_epochs(text)


def test_the_empty_file_that_kafka_creates_first_is_no_damage() -> None:
    assert decode_epochs(b"") == []
    assert decode_epochs(b"0\n1\n4 7\n") == [EpochStart(4, 7)]


GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.3.1-leader-epochs.txt"


def pairs(text: str) -> list[tuple[int, int]]:
    return [(int(epoch), int(offset)) for epoch, offset in (pair.split(":") for pair in text.split())]


def test_every_change_equals_kafkas_epoch_cache(tmp_path: Path) -> None:
    """The table was printed by a Java program with the jars of Kafka 4.3.1.

    It made 30 caches (`LeaderEpochFileCache` over a `LeaderEpochCheckpointFile`, with a scheduler that does nothing) and changed each seven
    times at random: `assign`, mostly growing, `truncateFromEndAsyncFlush`, `truncateFromStartAsyncFlush`; and asked after each change.
    """
    made = epochs(tmp_path)
    lines = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    for number, line in enumerate(lines):
        change, entries, ends, at = line.split("|")
        begins, name, *arguments = change.split()
        if begins == "new":
            made = epochs(tmp_path / str(number))
            made.path.parent.mkdir()
        getattr(made, name)(*map(int, arguments))
        assert list(made.entries) == pairs(entries), line
        assert [made.end_offset_for(epoch, 99) for epoch in range(-1, 10)] == pairs(ends), line
        assert [made.epoch_at(offset) for offset in range(13)] == [int(epoch) for epoch in at.split()], line
    assert len(lines) == 210


def test_a_recovered_batch_replaces_an_empty_epoch_at_its_offset(tmp_path: Path) -> None:
    made = epochs(tmp_path, (1, 0), (3, 10), (4, 12))
    made.note(5, 10)
    made.save()
    assert stored(made) == [(1, 0), (5, 10)]

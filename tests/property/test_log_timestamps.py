"""ListOffsets against a model, whatever was appended, rolled, deleted, compacted or lost in a crash. A timestamp gives the offset that a
reader of all records would find; the maximum timestamp gives the first record that has it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.storage.log_cleaner import Cleaning, clean_log
from ottla.broker.storage.log_values import NOT_FOUND, Isolation
from ottla.broker.storage.producer_state import Origin
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from tests.support.logs import NOW_MS, LogHarness

NEWEST = 60
STEPS = 40


def visible(harness: LogHarness) -> list[tuple[int, int]]:
    """Return (timestamp, offset) of every record from the log's start."""
    found: list[tuple[int, int]] = []
    offset = start = harness.log.log_start_offset
    while offset < harness.log.log_end_offset:
        data = harness.log.read(offset, 1 << 20, isolation=Isolation.LOG_END, min_one_batch=True).records
        if not data:
            break
        for position, header in split_batches(data):
            records = iter_records(data[position : position + header.size_bytes])
            found += [(r.timestamp, r.offset) for r in records if r.offset >= max(offset, start)]
            offset = header.next_offset
    return found


def greatest(harness: LogHarness) -> tuple[int, int]:
    """Return (timestamp, offset) of the first record with the greatest max timestamp of any batch in the files; NOT_FOUND if there is
    none."""
    batches = [(header, bytes(data)) for segment in harness.log.segments for _, header, data in segment.whole_batches(0)]
    newest = max((header.max_timestamp for header, _ in batches), default=-1)
    claim = next((data for header, data in batches if header.max_timestamp == newest), None)
    records = iter_records(claim) if claim is not None else ()
    return next(((r.timestamp, r.offset) for r in records if r.timestamp == newest), NOT_FOUND[:2])


def finish(cleaning: Cleaning) -> None:
    for caller in cleaning:
        if caller is not None:
            caller.sync()


def steps(harness: LogHarness, rng: random.Random) -> list[Callable[[], object]]:
    """Return the possible steps to draw from; appends make up half of them."""

    def append() -> None:
        times = [rng.choice([-1, 0, rng.randint(0, NEWEST)]) for _ in range(rng.randint(1, 4))]
        records = [SimpleRecord(b"%d" % rng.randrange(6), rng.choice([b"v" * 20, b"v", None]), time) for time in times]
        appended = rng.choice([None, None, rng.randint(0, NEWEST)])
        harness.append(build_batch(records, codec=rng.choice([Codec.NONE, Codec.LZ4]), log_append_time=appended), origin=Origin.COORDINATOR)

    def roll() -> None:
        if harness.log.segments.active.size:
            harness.log.roll(NOW_MS)

    return [
        *[append] * 7,
        roll,
        harness.crash,
        harness.restart,
        harness.log.flush,
        lambda: harness.log.delete_records_before(rng.randint(0, harness.log.log_end_offset)),
        lambda: harness.log.apply_retention(NOW_MS),
        lambda: finish(clean_log(harness.log, 0, NOW_MS + rng.randrange(100))),
        harness.log.segments.active.release,
    ]


@pytest.mark.parametrize("seed", range(25))
def test_every_timestamp_leads_to_the_record_that_a_reader_of_everything_would_choose(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    config = LogConfig(
        segment_bytes=rng.choice([400, 1500]),
        index_interval_bytes=rng.choice([0, 100, 300]),
        cleanup_policy=frozenset({"compact", "delete"}),
        delete_retention_ms=5,
        retention_ms=-1,
    )
    harness = LogHarness(tmp_path / "topic-0", config)
    for _ in range(STEPS):
        rng.choice(steps(harness, rng))()
        assert harness.findings == []
        records = visible(harness)
        for timestamp in (0, 1, rng.randint(0, NEWEST), NEWEST + 1):
            expected = next((record for record in records if record[0] >= timestamp), NOT_FOUND[:2])
            assert harness.log.offset_for_timestamp(timestamp)[:2] == expected
        assert harness.log.offset_for_timestamp(-3)[:2] == greatest(harness)
    harness.log.release()

"""Auditing a directory that is written to meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus.transactions import logs
from ottla.spark_jobs.corpus.writer import PartitionWriter
from ottla.spark_jobs.filesystem import Entry, Location
from ottla.spark_jobs.log_directory import LogDirectory
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.pins import LISTINGS_MAX, WRITTEN_WHILE_LISTED, at_one_moment, pin, pinned
from ottla.spark_jobs.verdict import DirectoryVerdict


def judge(path: Path, at_step: Callable[[str], None] = lambda _: None) -> DirectoryVerdict:
    (verdict,) = audit([path], engine="duckdb", progress=lambda step, _done, _total: at_step(step)).directories
    return verdict


def kinds_of(verdict: DirectoryVerdict) -> list[tuple[str, str, str]]:
    return [(rule, str(each.severity), each.kind) for rule, result in verdict.rules.items() for each in result.samples]


def begin(root: Path) -> Callable[[], None]:
    """Write an open transaction in two partitions; return a function that commits it."""
    first, second, states = logs(root)
    states.state("t", 1, 0, "Ongoing", 0, 0, 1)
    first.data(1, 0, 0, 0)
    second.data(1, 0, 0, 0)

    def end() -> None:
        states.state("t", 1, 1, "PrepareCommit", 1, 0, 1)
        first.marker(1, 1, 1)
        second.marker(1, 1, 1)
        states.state("t", 1, 1, "CompleteCommit", 1)

    return end


def test_transaction_that_ends_during_the_audit_is_open_and_not_torn(tmp_path: Path) -> None:
    end = begin(tmp_path)
    verdict = judge(tmp_path, lambda step: end() if step == "judging" else None)
    assert kinds_of(verdict) == [("hanging-transaction", "info", "open")] * 2
    assert kinds_of(judge(tmp_path)) == []


def test_transaction_that_ends_during_the_listing_is_not_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end, listed = begin(tmp_path), Location.entries
    ends = [end]

    def entries(self: Location, path: str) -> list[Entry]:
        found = listed(self, path)
        if path.endswith("payments-0") and ends:
            ends.pop()()  # its marker is not in the size just listed, the other partition's will be
        return found

    monkeypatch.setattr(Location, "entries", entries)
    assert kinds_of(judge(tmp_path)) == []
    assert not ends


def test_constantly_growing_directory_is_judged_with_a_note(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "rows", 0)

    def listing() -> LogDirectory:
        log.data(1)
        return find_logs(tmp_path)

    found = at_one_moment(listing)
    assert found.notes == [WRITTEN_WHILE_LISTED]
    assert log.next_offset == LISTINGS_MAX + 1


def test_segment_removed_by_retention_during_the_audit_is_no_violation(tmp_path: Path) -> None:
    log = PartitionWriter(tmp_path, "rows", 0)
    log.data(pid=1, seq=0)
    head = log.file
    log.roll()
    log.data(pid=1, seq=5)
    verdict = judge(tmp_path, lambda step: head.unlink(missing_ok=True) if step == "judging" else None)
    assert kinds_of(verdict) == [("crc", "info", "removed while reading")]
    assert verdict.batches == 1


def test_pinned_listing_equals_the_original_listing_by_topic(tmp_path: Path) -> None:
    begin(tmp_path / "log")
    path = pin(str(tmp_path / "log"), tmp_path / "pin.json")
    assert pinned(path) == find_logs(tmp_path / "log")
    assert pinned(path, ["payments"]) == find_logs(tmp_path / "log", ["payments"])
    assert pinned(path, ["no"]).problems == find_logs(tmp_path / "log", ["no"]).problems

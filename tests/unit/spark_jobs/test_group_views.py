"""The SQL views of groups and share groups: which rows are compared. The findings: corpus/test_corpus.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark_jobs.corpus.shares import ACCEPTED, AVAILABLE, Queue, Streams, begun_anew, current, group, handed_over
from ottla.spark_jobs.engines.embedded import embedded_engine
from ottla.spark_jobs.group_views import WIDTH_MAX
from ottla.spark_jobs.logs import find_logs
from ottla.spark_jobs.steps import AuditSpec, make_views

SPEC = AuditSpec((), None, False, False, 10, {"expiration_ms": 1, "transaction_timeout_ms": 1, "replay_ms": 1})


def selected(root: Path, query: str) -> list[tuple[object, ...]]:
    with embedded_engine() as engine:
        make_views(engine, SPEC, [find_logs(root)])
        return [tuple(row.values()) for row in engine.rows(query, {})]


def test_share_state_life_starts_with_each_initialization_and_deletion(tmp_path: Path) -> None:
    begun_anew(tmp_path)
    found = selected(tmp_path, "SELECT offset, existence, life, previous_snapshot_epoch FROM share_states ORDER BY offset")
    assert found == [(0, 0, 1, None), (1, 0, 1, 0), (2, 0, 2, 0), (3, 0, 2, 1), (4, 1, 3, None), (5, 1, 4, None), (6, 1, 4, 0)]


@pytest.mark.parametrize(("width", "rows"), [(WIDTH_MAX, WIDTH_MAX), (WIDTH_MAX + 1, 0)])
def test_a_state_batch_has_a_row_for_each_record_unless_it_is_too_wide(tmp_path: Path, width: int, rows: int) -> None:
    queue = Queue(tmp_path)
    queue.snapshot()
    queue.update((0, width - 1, AVAILABLE, 1))
    assert selected(tmp_path, "SELECT count(*) AS rows FROM share_records") == [(rows,)]


def test_share_record_row_has_the_highest_previous_state_and_final_state(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.snapshot()
    for state, count in ((AVAILABLE, 1), (ACCEPTED, 2), (AVAILABLE, 3), (AVAILABLE, 4)):
        queue.update((7, 7, state, count))
    found = selected(tmp_path, "SELECT rank, previous_rank, previous_end FROM share_records ORDER BY offset")
    assert found == [(8, None, None), (18, 8, None), (24, 18, 18), (32, 24, 18)]


def test_share_partitions_end_state_is_of_its_current_life(tmp_path: Path) -> None:
    begun_anew(tmp_path)
    assert selected(tmp_path, "SELECT offset, start_offset, last_offset FROM share_ends") == [(6, 0, 0)]


def test_deleted_group_may_restart_with_any_epoch(tmp_path: Path) -> None:
    handed_over(tmp_path)
    found = selected(
        tmp_path, "SELECT DISTINCT life, group_epoch, previous_group_epoch FROM group_records WHERE record = 'group' AND NOT deleted"
    )
    assert sorted(found, key=str) == [(0, 1, None), (0, 2, 1), (0, 3, 2), (1, 1, None)]


def test_group_records_of_one_batch_take_effect_together(tmp_path: Path) -> None:
    log = Streams(tmp_path)
    log.write(current("a", 1, [0]), group(1))
    log.write(current("a", 2, [0]))
    found = selected(tmp_path, "SELECT offset, group_epoch, replaced_at FROM group_records WHERE record = 'current' ORDER BY offset")
    assert found == [(0, 1, 2), (2, 1, None)]

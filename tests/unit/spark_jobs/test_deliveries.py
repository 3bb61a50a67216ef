from __future__ import annotations

from pathlib import Path

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus.shares import ACCEPTED, ARCHIVED, AVAILABLE, Queue, begun_anew
from ottla.spark_jobs.deliveries import ShareDeliveries


def deliveries(root: Path) -> list[ShareDeliveries]:
    (directory,) = audit([root], engine="duckdb").directories
    return directory.deliveries


def test_each_share_record_counts_once_by_its_newest_state(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.snapshot(start=-1)
    queue.update((0, 3, ACCEPTED, 1), (4, 7, AVAILABLE, 1), start=0)
    queue.update((4, 4, ACCEPTED, 2), (5, 5, ARCHIVED, 5), (6, 6, AVAILABLE, 3))
    queue.snapshot((4, 4, ACCEPTED, 2), (5, 5, ARCHIVED, 5), (6, 6, AVAILABLE, 3), (7, 7, AVAILABLE, 1), epoch=1, start=4)
    expected = ShareDeliveries("g", "queue", 0, 4, 7, 8, accepted=5, archived=1, waiting=2, redelivered=3, deliveries_max=5)
    assert deliveries(tmp_path) == [expected]


def test_reinitialized_share_group_counts_from_zero_and_a_deleted_one_not_at_all(tmp_path: Path) -> None:
    begun_anew(tmp_path / "anew")
    assert deliveries(tmp_path / "anew") == [ShareDeliveries("g", "queue", 0, 0, 0, 1, 0, 0, 1, 0, 1)]
    queue = Queue(tmp_path / "deleted")
    queue.snapshot()
    queue.update((0, 3, ACCEPTED, 1))
    queue.delete()
    assert deliveries(tmp_path / "deleted") == []


def test_share_group_without_deliveries_is_listed_and_a_topic_without_a_log_by_its_id(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.snapshot(start=-1)
    (queue.topic.directory / "partition.metadata").unlink()
    assert deliveries(tmp_path) == [ShareDeliveries("g", "AAECAwQFBgcICQoLDA0ODw", 0, -1, None, 0, 0, 0, 0, 0, 0)]

from __future__ import annotations

from ottla.spark_jobs.corpus import payments
from ottla.spark_jobs.reports.pictures import Pictures
from ottla.spark_jobs.verdict import Verdict

Judged = tuple[Verdict, dict[str, Pictures]]


def test_each_partition_has_its_producers_and_transactions(judged: Judged) -> None:
    verdict, pictures = judged
    picture = next(p for p in pictures[verdict.directories[0].path].partitions if (p.topic, p.partition) == ("payments", 0))
    assert (picture.first_offset, picture.last_offset) == (0, 19)
    assert [(span.producer_id, span.producer_epoch, span.first_offset) for span in picture.spans][:2] == [(1000, 0, 0), (1001, 0, 3)]
    assert {txn.outcome for txn in picture.transactions} == {"commit", "abort", None}
    assert all(span.first_offset <= txn.first_offset for span, ran in picture.lanes for txn in ran)


def test_partitions_with_findings_are_drawn_first(judged: Judged) -> None:
    verdict, pictures = judged
    drawn = [(p.topic, len(p.findings) > 0) for p in pictures[verdict.directories[0].path].partitions]
    assert drawn == [("payments", True), ("payments", True), ("__transaction_state", False)]


def test_picture_has_the_batch_of_each_finding(judged: Judged) -> None:
    verdict, pictures = judged
    (directory, _) = verdict.directories
    batches = pictures[directory.path].batches
    for result in directory.rules.values():
        for finding in result.samples:
            assert batches[finding.file, finding.position]["base_offset"] == finding.offset
    assert any(batch["producer_id"] == payments.TORN for batch in batches.values())

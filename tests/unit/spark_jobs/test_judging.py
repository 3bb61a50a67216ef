from __future__ import annotations

from pathlib import Path

import pytest

from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.corpus.writer import T0, PartitionWriter
from ottla.spark_jobs.judging import BusinessKey


@pytest.mark.parametrize(
    ("field", "place", "name"),
    [("order.id", "value", "order.id"), ("$.a", "value", "$.a"), ("header:order-id", "header", "order-id"), ("key:", "key", "")],
)
def test_business_key_is_parsed_from_its_field_name(field: str, place: str, name: str) -> None:
    assert BusinessKey.parse(field) == BusinessKey(place, name)


@pytest.mark.parametrize("field", ["header:id", "key:", "id"])
def test_duplicate_business_key_is_found_by_header_key_or_field_with_both_producers(tmp_path: Path, field: str) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for pid, name in ((1, b"a"), (1, b"b"), (2, b"a"), (-1, b"c")):
        record = SimpleRecord(name, b'{"id": "%s", "by": %d}' % (name, pid), T0, (("id", name), ("other", b"same")))
        log.batch(
            build_batch([record], producer_id=pid, producer_epoch=0 if pid >= 0 else -1, base_sequence=log.next_offset if pid == 1 else -1)
        )
    (directory,) = audit([tmp_path], key_field=field, engine="duckdb").directories
    (finding,) = directory.rules["business-key"].samples
    assert (finding.offset, finding.evidence["writer"], finding.evidence["first_offset"]) == (2, "another producer id", 0)


def test_rule_that_was_not_requested_is_not_judged(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0).data()
    (directory,) = audit([tmp_path], engine="duckdb", deep=False).directories
    assert {name for name, result in directory.rules.items() if not result.judged} == {rule.name for rule in RULES if rule.needs}


def test_replica_rule_without_a_second_copy_is_not_judged(tmp_path: Path) -> None:
    for broker, topics in (("a", ("t",)), ("b", ("u", "v")), ("c", ("t",))):
        for topic in topics:
            PartitionWriter(tmp_path / broker, topic, 0).data(rows=["same"])
    for names in (["a"], ["a", "b"]):
        verdict = audit([tmp_path / name for name in names], replicas=True, engine="duckdb")
        assert verdict.exit_code == 2
        for directory in verdict.directories:
            assert directory.problems == [f"{directory.path}: --replicas has nothing to compare: no partition is in two of the directories"]
            assert not directory.rules["replicas"].judged
    assert audit([tmp_path / name for name in "abc"], replicas=True, engine="duckdb").exit_code == 0
    assert audit([tmp_path / name for name in "abc"], topics=["u"], replicas=True, engine="duckdb").exit_code == 2


def test_replicas_of_same_named_topics_with_different_ids_are_not_compared(tmp_path: Path) -> None:
    for broker, topic_id, row in (("a", "gxLMJmlBRNqRX4Gwo-xQAQ", "old"), ("b", "n7Rk0bBfRk2J1sQ5yTq1mA", "new")):
        for topic in ("t", "u"):
            log = PartitionWriter(tmp_path / broker, topic, 0)
            log.data(rows=[row if topic == "t" else "same"])
            (log.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id if topic == 't' else 'same'}")
    judged = audit([tmp_path / "a", tmp_path / "b"], replicas=True, engine="duckdb")
    assert judged.exit_code == 2
    assert [directory.rules["replicas"].samples for directory in judged.directories] == [[], []]
    assert all("t-0 is of different topics of this name" in directory.problems[0] for directory in judged.directories)
    (tmp_path / "a" / "t-0" / "partition.metadata").unlink()
    (found,) = audit([tmp_path / "a", tmp_path / "b"], replicas=True, engine="duckdb").directories[1].rules["replicas"].samples
    assert found.where == "t-0@0"

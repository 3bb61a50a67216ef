"""Which rules are judged, and where a business key may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.records.record import SimpleRecord, build_batch
from spark_jobs.audit import audit
from spark_jobs.checks import RULES
from spark_jobs.corpus.writer import T0, PartitionWriter
from spark_jobs.judging import BusinessKey


@pytest.mark.parametrize(
    ("field", "place", "name"),
    [("order.id", "value", "order.id"), ("$.a", "value", "$.a"), ("header:order-id", "header", "order-id"), ("key:", "key", "")],
)
def test_a_business_key_is_named_by_its_place(field: str, place: str, name: str) -> None:
    assert BusinessKey.parse(field) == BusinessKey(place, name)


@pytest.mark.parametrize("field", ["header:id", "key:", "id"])
def test_a_duplicate_is_found_by_header_key_or_field_and_says_who_wrote_it(tmp_path: Path, field: str) -> None:
    log = PartitionWriter(tmp_path, "t", 0)
    for pid, name in ((1, b"a"), (1, b"b"), (2, b"a"), (-1, b"c")):
        record = SimpleRecord(name, b'{"id": "%s", "by": %d}' % (name, pid), T0, (("id", name), ("other", b"same")))
        log.batch(
            build_batch([record], producer_id=pid, producer_epoch=0 if pid >= 0 else -1, base_sequence=log.next_offset if pid == 1 else -1)
        )
    (directory,) = audit([tmp_path], key_field=field, engine="duckdb").directories
    (finding,) = directory.rules["business-key"].samples
    assert (finding.offset, finding.evidence["writer"], finding.evidence["first_offset"]) == (2, "another producer id", 0)


def test_a_rule_that_was_not_asked_for_is_not_judged(tmp_path: Path) -> None:
    PartitionWriter(tmp_path, "t", 0).data()
    (directory,) = audit([tmp_path], engine="duckdb", deep=False).directories
    assert {name for name, result in directory.rules.items() if not result.judged} == {rule.name for rule in RULES if rule.needs}

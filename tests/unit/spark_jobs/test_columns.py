from __future__ import annotations

import pytest

from ottla.spark_jobs.columns import LEVELS, SEGMENT_COLUMNS, ddl
from ottla.spark_jobs.tables import arrow_schema


@pytest.mark.parametrize("level", LEVELS)
def test_no_level_has_a_column_twice_and_each_has_a_type_in_arrow(level: str) -> None:
    assert SEGMENT_COLUMNS.keys().isdisjoint(LEVELS[level])
    assert arrow_schema(level).names == [*SEGMENT_COLUMNS, *LEVELS[level]]
    assert ddl(level).startswith("`log_dir` string, `topic` string, `partition` int, ")


def test_columns_come_in_the_order_asked_for_and_unknown_ones_are_refused() -> None:
    assert arrow_schema("records", ["value", "topic"]).names == ["value", "topic"]
    with pytest.raises(KeyError):
        arrow_schema("records", ["valeu"])
    with pytest.raises(ValueError, match="unknown level 'keys'"):
        arrow_schema("keys")

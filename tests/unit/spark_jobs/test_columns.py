from __future__ import annotations

import pytest

from ottla.spark_jobs.columns import LEVELS, SEGMENT_COLUMNS, ddl
from ottla.spark_jobs.tables import arrow_schema


@pytest.mark.parametrize("level", LEVELS)
def test_columns_of_a_level_are_unique_and_have_arrow_types(level: str) -> None:
    assert SEGMENT_COLUMNS.keys().isdisjoint(LEVELS[level])
    assert arrow_schema(level).names == [*SEGMENT_COLUMNS, *LEVELS[level]]
    assert ddl(level).startswith("`log_dir` string, `topic` string, `partition` int, ")


def test_requested_column_order_is_kept_and_unknown_columns_are_rejected() -> None:
    assert arrow_schema("records", ["value", "topic"]).names == ["value", "topic"]
    with pytest.raises(KeyError):
        arrow_schema("records", ["valeu"])
    with pytest.raises(ValueError, match="unknown level 'keys'"):
        arrow_schema("keys")

"""`broker/api/api_table.py` and docs/apis.md equal the declarations of the API handlers."""

from __future__ import annotations

from tests.support.api_table import HANDLERS, PAGE, TABLE, declared, page, table


def test_api_table_matches_the_declarations() -> None:
    assert table() == TABLE.read_text(), "run `make apis`"


def test_apis_page_matches_the_declarations() -> None:
    assert page(PAGE.read_text()) == PAGE.read_text(), "run `make apis`"


def test_a_handlers_file_is_named_after_its_api() -> None:
    assert [path.stem for path in HANDLERS] == [api.served.module for api in declared()]

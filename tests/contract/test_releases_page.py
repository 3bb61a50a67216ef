"""docs/releases.md equals the page made from the tables of releases."""

from __future__ import annotations

from tests.support.releases_page import PAGE, page


def test_releases_page_matches_the_tables() -> None:
    assert page(PAGE.read_text()) == PAGE.read_text(), "run `make settings`, or `make releases` for new tables of releases"

"""docs/settings.md equals the page made from the tables of settings."""

from __future__ import annotations

from tests.support.settings_page import PAGE, page


def test_settings_page_matches_the_tables() -> None:
    assert page() == PAGE.read_text(), "run `make settings`"

"""Writes docs/releases.md from the tables of releases and what Ottla lacks of each: part of `make releases` and of `make settings`. A
contract test compares the page with both.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from ottla.broker.api.offered import COLUMN, WITHOUT_EFFECT, unserved, unserved_counts
from ottla.broker.releases.changes import COLUMNS, KINDS, Change, changes, summary
from ottla.broker.releases.release_behaviour import behaviour_of
from ottla.broker.releases.table import ReleaseTable, releases

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "releases.md"
_SETTINGS: Final = ((WITHOUT_EFFECT, "Settings without effect in Ottla"), (None, "Settings that Ottla does not know"))
BEGIN: Final = "<!-- tables: written by `make releases` -->\n"


def page(text: str) -> str:
    """Return the text of docs/releases.md with everything after the marker replaced."""
    before, _ = text.split(BEGIN)
    tables = list(releases().values())
    rows = [_row((*summary(table), unserved_counts(behaviour_of(table.release)))) for table in tables]
    sections = [_section(older, newer) for older, newer in reversed(list(pairwise(tables)))]
    return before + BEGIN + "\n" + _head((*COLUMNS, COLUMN)) + "".join(rows) + "\n" + "".join(sections).removesuffix("\n")


def _section(older: ReleaseTable, newer: ReleaseTable) -> str:
    found = list(changes(older, newer))
    return f"## From {older.version} to {newer.version}\n\n" + "".join(_paragraphs(found)) + "".join(_unserved(found, newer.release))


def _unserved(found: list[Change], release: str) -> Iterator[str]:
    """Yield those changes between two releases that Ottla does not implement."""
    changed = {(change.kind, change.name) for change in found}
    lacking = [change for change in unserved(behaviour_of(release)) if (change.kind, change.name) in changed]
    settings = [change for change in lacking if change.kind.endswith(" setting")]
    if others := [change for change in lacking if change not in settings]:
        cells = [_row((f"{each.kind} `{each.name}`", each.before, each.after)) for each in others]
        yield _head((f"what Ottla serves less of {release}", "Apache Kafka", "Ottla")) + "".join(cells) + "\n"
    for value, text in _SETTINGS:
        if names := sorted({f"`{each.name}`" for each in settings if each.after == value}):
            yield f"{text}: {', '.join(names)}.\n\n"


def _paragraphs(found: list[Change]) -> Iterator[str]:
    for kind in KINDS.values():
        of_kind = [change for change in found if change.kind == kind]
        if changed := [change for change in of_kind if change.before is not None]:
            yield _head((kind, "before", "after")) + "".join(_row((f"`{each.name}`", each.before, each.after)) for each in changed) + "\n"
        if added := [f"`{change.name}` ({_cell(change.after)})" for change in of_kind if change.before is None]:
            yield f"New {kind}{'s' if len(added) > 1 else ''}: {', '.join(added)}.\n\n"


def _head(columns: tuple[str, ...]) -> str:
    return _row(columns) + _row(("---",) * len(columns))


def _row(cells: tuple[object, ...]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |\n"


def _cell(value: object) -> str:
    return "-" if value is None else "empty" if value == "" else str(value).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))

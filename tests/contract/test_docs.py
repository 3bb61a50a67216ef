"""Every link of a page has a target, and every page can be reached."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from client_compat.matrix.outcomes import KNOWN

ROOT = Path(__file__).resolve().parents[2]
README_LINES_MAX = 70
FOLDERS = ("docs", "protocol", "broker", "client_compat", "spark_jobs", "tests")
BUILT = {"node_modules", "target"}  # what npm and Cargo leave beside the client programs
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
PAGES = [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.md")) if not BUILT & {*page.parts})]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, made as GitHub makes them."""
    texts = [LINK.sub(lambda link: link[0][1 : link[0].index("]")], heading["text"]) for heading in HEADING.finditer(prose(page))]
    slugs = [re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts]
    seen: Counter[str] = Counter()
    made = set()
    for slug in slugs:
        made.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return made


def leads_nowhere(page: Path, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return False  # another site: not asked from a test
    name, _, anchor = target.partition("#")
    there = (page.parent / name) if name else page
    return not there.exists() or bool(anchor and there.suffix == ".md" and anchor not in anchors(there))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    assert [link["target"] for link in LINK.finditer(prose(page)) if leads_nowhere(page, link["target"])] == []


def test_the_index_names_every_page_of_the_docs() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link["target"].partition("#")[0]).resolve() for link in LINK.finditer(prose(index))}
    assert [page.name for page in sorted((ROOT / "docs").rglob("*.md")) if page != index and page not in linked] == []


def test_every_deviation_names_the_tests_that_pin_it_and_these_exist() -> None:
    lines = (ROOT / "docs" / "deviations.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith(("| Kafka |", "| --- |"))]
    assert len(rows) > 70
    pins = [(row, re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", row)) for row in rows]
    assert [row for row, tests in pins if not tests] == []
    stale = [f"{path}::{name}" for _, tests in pins for path, name in tests if f"def {name}" not in (ROOT / path).read_text()]
    assert stale == []


def test_every_deviation_that_the_matrix_names_is_in_the_table() -> None:
    rows = {line.split(" | ")[0] for line in (ROOT / "docs" / "deviations.md").read_text().splitlines()}
    named = [row.deviation for row in KNOWN if row.deviation]
    assert named
    assert [name for name in named if f"| {name}" not in rows] == []


def test_the_readme_fits_on_a_screen() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES_MAX

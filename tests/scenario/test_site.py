"""The documentation's site, as `make docs` builds it: without warnings, with valid links, and without requests to other hosts."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 300
GUIDES = ("testing", "exactly-once", "verify", "auditing", "cluster")
OF_ANOTHER_HOST = re.compile(r"""url\(\s*['"]?(?:https?:)?//|@import\s+['"](?:https?:)?//""")


def build(source: Path, work: Path) -> subprocess.CompletedProcess[str]:
    """Run what `make docs` runs for a source directory; the site is `work/html`."""
    options = ["--fail-on-warning", "--keep-going", "--quiet", "-c", str(ROOT / "docs" / "site"), "-d", str(work / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(work / "html")]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@dataclass
class Page(HTMLParser):
    """A page's links, the resources that it loads, and its anchors."""

    links: set[str] = field(default_factory=set)
    fetched: set[str] = field(default_factory=set)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given["id"]} if "id" in given else set()
        if tag == "a":
            self.links |= {given["href"]} if "href" in given else set()
        else:
            self.fetched |= {given[name] for name in ("src", "href", "srcset", "data") if name in given}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """Return every page of the site, by its file."""
    work = tmp_path_factory.mktemp("site")
    done = build(ROOT, work)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {}
    for path in (work / "html").rglob("*.html"):
        pages[path.resolve()] = page = Page()
        page.feed(path.read_text())
    return pages


def leads_nowhere(site: dict[Path, Page], here: Path, link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    there = (here.parent / unquote(parts.path)).resolve() if parts.path else here
    known = site.get(there)
    return not there.is_file() or bool(known and parts.fragment and unquote(parts.fragment) not in known.anchors)


def test_every_link_of_the_site_resolves_and_nothing_is_loaded_from_another_host(site: dict[Path, Page]) -> None:
    assert len(site) > 40
    assert [(path.name, link) for path, page in site.items() for link in page.links if leads_nowhere(site, path, link)] == []
    assert [(path.name, link) for path, page in site.items() for link in page.fetched if urlsplit(link).netloc] == []
    (home,) = {path.parent for path in site if path.name == "search.html"}
    sheets = [*home.rglob("*.css")]
    assert sheets
    assert [sheet.name for sheet in sheets if OF_ANOTHER_HOST.search(sheet.read_text())] == []


def test_the_opening_page_links_every_guide_and_its_navigation_links_every_page(site: dict[Path, Page]) -> None:
    (opening,) = [path for path in site if path.parts[-2:] == ("docs", "README.html")]
    assert {f"{name}.html" for name in GUIDES} <= site[opening].links
    linked = {(opening.parent / urlsplit(link).path).resolve() for link in site[opening].links if not urlsplit(link).netloc}
    made_by_sphinx = {"genindex.html", "search.html", "index.html"}
    assert [path for path in site if path not in {*linked, opening} and path.name not in made_by_sphinx] == []


def test_a_broken_link_and_a_broken_anchor_are_errors(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# Opening\n\n[a page](nowhere.md) [an anchor](other.md#nowhere)\n")
    (tmp_path / "docs" / "other.md").write_text("# Other\n")
    done = build(tmp_path, tmp_path)
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "local id not found in doc 'docs/other': 'nowhere'" in done.stderr

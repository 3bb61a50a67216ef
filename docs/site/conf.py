"""How Sphinx makes the pages of this checkout into a site (`make docs`).

The source directory is the checkout's root, so that links to pages outside docs/ work on the site too. The navigation has the order of
the tables in docs/README.md.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
INDEX = "docs/README"
OUTSIDE = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "client_compat/*.md",
    "client_compat/clients/CONTROL.md",
    "client_compat/dedupe/README.md",
)
ROW = re.compile(r"^(?:\| |\d+\. )\[[^\]]+\]\((?P<page>[^)#]+\.md)\)", re.MULTILINE)

project = "Ottla"
author = "the Ottla authors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser"]
root_doc = INDEX
include_patterns = ["docs/**", *OUTSIDE]
exclude_patterns = [f"{each.name}/**" for each in ROOT.iterdir() if each.is_dir() and each.name not in {"docs", "client_compat"}]
exclude_patterns += ["**/node_modules", "**/target", "**/__pycache__"]

highlight_language = "text"  # a block that does not name its language is no Python
myst_heading_anchors = 6  # the anchors that GitHub makes, so a link to a heading works in both places

html_theme = "furo"  # its fonts are the reader's own: a page fetches nothing from another host
html_title = f"Ottla {release}"
html_extra_path = ["index.html"]  # the site's root leads to the opening page
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False


def navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give docs/README.md a hidden table of contents for each of its sections."""
    if docname != INDEX:
        return
    sections = re.split(r"^## ", source[0], flags=re.MULTILINE)[1:]
    for section in sections:
        caption = section.splitlines()[0]
        pages = [str(PurePosixPath("docs") / row["page"]) for row in ROW.finditer(section)]
        names = [page.removeprefix("docs/../").removesuffix(".md") for page in pages]
        entries = "\n".join(f"/{name}" for name in names)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {caption}\n\n{entries}\n```\n"


def setup(app: Sphinx) -> None:
    """Sphinx asks for this name."""
    app.connect("source-read", navigation)

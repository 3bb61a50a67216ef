"""The verdict as one self-contained HTML page with pictures. The page loads no external scripts, styles or other files.

Invariants:
- All text from a log is escaped.
- The page works without scripts; details can be opened.
- Omitted parts of a picture are named under it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.reports.pictures import PartitionPicture, Pictures
from ottla.spark_jobs.verdict import Finding, Verdict

WIDTH: Final = 1000
"""The width of a picture in SVG units."""
MARGIN: Final = 190
LANE: Final = 22
MIN_WIDTH: Final = 2.0


def template(package: str, name: str) -> Template:
    """Load a Jinja template of a Python package. It escapes values for HTML, and rendering raises an error for an undefined name."""
    environment = Environment(
        loader=PackageLoader(package, "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = lambda number: f"{number:,}"
    return environment.get_template(name)


def write(verdict: Verdict, pictures: Mapping[str, Pictures], path: Path) -> None:
    """Write the report's HTML page to the file `path`."""
    path.write_text(render(verdict, pictures), encoding="utf-8")


def render(verdict: Verdict, pictures: Mapping[str, Pictures]) -> str:
    """Return the report's HTML page."""
    numbers = {id(finding): number for number, finding in enumerate(_findings(verdict), 1)}
    return template("ottla.spark_jobs.reports", "report.html.j2").render(
        verdict=verdict,
        rules=RULES,
        advice={rule.name: rule.advice for rule in RULES},
        pictures=pictures,
        undrawn=Pictures(),
        number_of=lambda finding: numbers[id(finding)],
        scale=_scale,
        layout={"width": WIDTH, "margin": MARGIN, "lane": LANE},
        batch_of=_batch_of(pictures),
        shown=_shown,
    )


def _findings(verdict: Verdict) -> list[Finding]:
    return [finding for directory in verdict.directories for result in directory.rules.values() for finding in result.samples]


def _scale(picture: PartitionPicture) -> Callable[[int, int | None], tuple[float, float]]:
    """Return a function that converts a first and a last offset (both inclusive) to the x coordinate and width of a bar in the picture.
    Single records get a minimum width, so that they stay visible."""
    span = max(1, picture.last_offset - picture.first_offset + 1)
    per_offset = (WIDTH - MARGIN - 10) / span

    def place(first: int, last: int | None = None) -> tuple[float, float]:
        start = MARGIN + (first - picture.first_offset) * per_offset
        width = ((first if last is None else last) - first + 1) * per_offset
        return round(start, 2), round(max(MIN_WIDTH, width), 2)

    return place


def _batch_of(pictures: Mapping[str, Pictures]) -> Callable[[str, Finding], dict[str, Any]]:
    return lambda path, finding: pictures.get(path, Pictures()).batches.get((finding.file, finding.position), {})


def _shown(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, text) pairs of the values that are neither empty nor None, for display; long texts are truncated."""
    return [(name, str(value)[:400]) for name, value in values.items() if value not in ("", None)]

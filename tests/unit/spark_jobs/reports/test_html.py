from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.reports import html
from ottla.spark_jobs.reports.pictures import Pictures
from ottla.spark_jobs.verdict import DirectoryVerdict, Finding, RuleResult, Verdict

VOID = {"meta", "link", "path", "line", "rect", "br"}
Judged = tuple[Verdict, dict[str, Pictures]]


class Page(HTMLParser):
    """An HTML parser that collects all elements with their attributes, and fails on unclosed ones."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_html_report_fetches_nothing(judged: Judged, tmp_path: Path) -> None:
    html.write(*judged, tmp_path / "audit.html")
    text = (tmp_path / "audit.html").read_text()
    links = [attributes.get(name) or "" for _, attributes in Page(text).elements for name in ("src", "href") if name in attributes]
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "@import" not in text
    assert "url(" not in text


def test_every_finding_has_details_and_a_link_from_its_picture(judged: Judged) -> None:
    verdict, pictures = judged
    page = Page(html.render(verdict, pictures))
    ids = {attributes["id"] for tag, attributes in page.elements if tag == "details"}
    assert len(ids) == sum(len(result.samples) for result in verdict.directories[0].rules.values()) == 6
    assert {(attributes["href"] or "")[1:] for tag, attributes in page.elements if tag == "a"} == ids


def test_html_report_has_the_verdict_the_rules_claims_and_unjudged_directories(judged: Judged) -> None:
    text = html.render(*judged)
    assert "6 violations" in text
    assert "No transaction is committed in one partition and aborted, or not ended, in another." in text
    assert "absent: no such directory" in text
    assert text.count('fill="var(--commit)"') > 0
    assert text.count('fill="var(--abort)"') > 0


def test_log_content_is_escaped_in_the_html_report(judged: Judged) -> None:
    verdict, _ = judged
    evil = "<script>alert(1)</script>"
    finding = Finding("crc", Severity.VIOLATION, evil, evil, 0, None, evil, 0, {evil: evil})
    (directory, _) = verdict.directories
    spoilt: DirectoryVerdict = replace(directory, path=evil, rules={**directory.rules, "crc": RuleResult(True, 1, 0, 0, [finding])})
    assert evil not in html.render(Verdict([spoilt]), {})


def test_single_record_among_millions_is_drawn_visibly(judged: Judged) -> None:
    verdict, pictures = judged
    picture = replace(pictures[verdict.directories[0].path].partitions[0], last_offset=10_000_000)
    pictures = {verdict.directories[0].path: Pictures([picture])}
    widths = [float(width) for width in re.findall(r'<rect [^>]*? width="([\d.]+)"', html.render(verdict, pictures))]
    assert min(widths) >= html.MIN_WIDTH

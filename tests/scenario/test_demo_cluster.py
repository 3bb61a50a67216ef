"""A short `make demo-cluster`, as a command, and its page in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import CSS, ID, browser, open_page

if TYPE_CHECKING:
    from selenium import webdriver

TIMEOUT_S = 400
ACTS = ("safe", "alone", "unclean")
SMALL, LARGE = 380, 1200
READABLE = 4.5
"""The minimum contrast of text (WCAG 2, level AA)."""
CONTRAST = """
    const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => linear(v / 255)); return .2126 * r + .7152 * g + .0722 * b; };
    const paper = light(getComputedStyle(document.body).backgroundColor);
    return [...document.querySelectorAll("h1, h2, p, li, td, th, svg text:not(.on)")].filter(e => e.textContent.trim()).map(e => {
        const style = getComputedStyle(e), ink = light(e.namespaceURI.endsWith("svg") ? style.fill : style.color);
        return [(Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05), e.textContent.trim().slice(0, 40)]; });
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the short demo; return its result directory and its output."""
    directory = tmp_path_factory.mktemp("demo") / "cluster"
    command = [sys.executable, "-m", "client_compat.demo_cluster", "--short", "--dir", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory, done.stdout


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    with browser() as found:
        yield found


def lost(text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r": acknowledged [\d,]+, lost ([\d,]+), doubled 0", text)]


def test_demo_loses_only_records_without_guarantees_and_detects_every_loss(played: tuple[Path, str]) -> None:
    _, text = played
    safe, alone, unclean = lost(text)
    assert safe == 0
    assert alone > 0
    assert unclean > 0
    assert text.count("✓") == 7
    assert "✗" not in text
    assert "As promised" in text


def test_demo_prints_plain_lines_about_events_and_cluster_state_to_a_pipe(played: tuple[Path, str]) -> None:
    _, text = played
    assert "\x1b" not in text
    for words in ("is killed, leader of partition", "stands still, and copies nothing", "with records that nobody else has", "in epoch"):
        assert words in text
    assert re.search(
        r"acknowledged [\d,]+, in flight \d+; last sequences of producer \d+: .* led by \d, in sync 1 2 3, high watermark", text
    )


def test_demo_page_shows_the_results_of_the_run(played: tuple[Path, str], chromium: webdriver.Chrome) -> None:
    directory, text = played
    open_page(chromium, directory / "cluster.html", width=LARGE)
    cards = [card.text for card in chromium.find_elements(CSS, ".card .big")]
    assert cards == [f"lost {number:,}" for number in lost(text)]
    assert chromium.find_element(CSS, ".badge").text == "As promised"
    for key in ACTS:
        act = chromium.find_element(ID, key)
        picture = act.find_element(CSS, "svg")
        assert picture.size["height"] > 200
        assert f"{key}-0 led by" in picture.text
        marks, events = picture.find_elements(CSS, "circle"), act.find_elements(CSS, "ol.events li")
        assert len(marks) == len(events) > 0
        assert any("is killed" in each.text for each in events)
        assert ("no consumer is given" in act.text) == (key != "safe")


def test_demo_page_fetches_nothing_and_logs_no_errors(played: tuple[Path, str], chromium: webdriver.Chrome) -> None:
    page = played[0] / "cluster.html"
    for kind in ("browser", "performance"):
        chromium.get_log(kind)  # discard messages of earlier pages
    open_page(chromium, page, width=LARGE)
    assert chromium.get_log("browser") == []
    sent = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    fetched = {one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"}
    assert {url for url in fetched if not url.startswith("data:")} == {page.as_uri()}


@pytest.mark.parametrize("dark", [False, True])
def test_demo_page_text_is_readable_in_light_and_dark(played: tuple[Path, str], chromium: webdriver.Chrome, *, dark: bool) -> None:
    open_page(chromium, played[0] / "cluster.html", width=LARGE, dark=dark)
    found: list[tuple[float, str]] = [tuple(one) for one in chromium.execute_script(CONTRAST)]
    assert len(found) > 100
    assert [one for one in found if one[0] < READABLE] == []


def test_demo_page_scrolls_only_its_pictures_on_a_small_screen(played: tuple[Path, str], chromium: webdriver.Chrome) -> None:
    open_page(chromium, played[0] / "cluster.html", width=SMALL)
    script = "const e = document.documentElement; return [e.scrollWidth, [...document.querySelectorAll('svg')].map(s => s.clientWidth)]"
    page: Any
    page, pictures = chromium.execute_script(script)
    assert page <= SMALL
    assert all(width > SMALL for width in pictures)

"""The console in a real browser, over brokers that real requests are sent to: what a reader sees, room by room."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import CSS, browser
from tests.support.console import Console, console
from tests.support.console_page import ConsolePage
from tests.support.topic_calls import produce

if TYPE_CHECKING:
    from selenium import webdriver

HOSTILE = b'<img src=x onerror="document.title=1"><script>document.title=1</script>'


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def room() -> Iterator[Console]:
    with console() as found:
        yield found


@pytest.fixture
def page(chromium: webdriver.Chrome, room: Console) -> ConsolePage:
    return ConsolePage(chromium, room)


def test_records_show_up_as_they_arrive_and_are_text_whatever_they_say(page: ConsolePage, room: Console) -> None:
    room.broker.topics.create("orders", 2)
    page.open("/topics")
    page.find("a", "orders").click()
    page.find("table a", "1").click()
    page.wait_for("Nothing was written yet")
    with room.client() as client:
        produce(client, "orders", b'{"id": 17, "price": 1.10}', HOSTILE, partition=1, producer_id=41, base_sequence=0)
        page.wait_for("<script>document.title=1</script>")
        assert [line.split()[0] for line in page.texts("tr.record")] == ["1", "0"]
        assert "41 epoch 0" in page.texts("tr.record")[0]
        produce(client, "orders", b"one more", partition=1)
        page.wait_for("one more")
    page.find("button.offset", "0").click()
    page.wait_for("producer 41, epoch 0, sequence 0")
    assert '{\n  "id": 17,\n  "price": 1.10\n}' in page.driver.find_element(CSS, "pre").text
    assert page.driver.title == "orders-1 · Ottla console"
    assert page.driver.find_elements(CSS, "main img, main script") == []
    assert page.complaints() == []


def test_the_page_asks_nobody_else(page: ConsolePage, room: Console) -> None:
    page.driver.get_log("performance")
    page.open("/topics")
    page.wait_for("Topics")
    sent = [json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")]
    asked = {one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"}
    assert asked
    assert {url for url in asked if not url.startswith(room.url)} == set()

"""A real browser without a window: Chromium, driven over WebDriver. Tests that need it are skipped where it is not installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium import webdriver

CHROMIUM, DRIVER = "chromium", "chromedriver"
CSS, ID = "css selector", "id"
"""How elements are found (WebDriver's own names)."""
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
"""Tests may run as root and in containers, where Chromium's own sandbox cannot."""


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Chromium, ended with the block."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: run `make setup`")
    program, driver = shutil.which(CHROMIUM), shutil.which(DRIVER)
    if program is None or driver is None:
        pytest.skip(f"a browser is not installed: {CHROMIUM} and {DRIVER} (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for argument in ARGUMENTS:
        options.add_argument(argument)
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield found
    finally:
        found.quit()


def open_page(found: webdriver.Chrome, page: Path, *, width: int, dark: bool = False) -> None:
    """As a reader with a screen of that width sees it, who likes it light or dark."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    found.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    found.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    found.get(page.as_uri())

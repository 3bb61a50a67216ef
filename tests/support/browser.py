"""Headless Chromium, driven over WebDriver. Tests that need it are skipped if it is not installed."""

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
"""Locator strategies, under WebDriver's names."""
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
"""Chromium's command-line arguments. Its sandbox is off, because it does not work as root and in containers."""


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Run headless Chromium while the context lasts; yield its driver."""
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
    """Open a page with the given screen width and colour scheme."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    found.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    found.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    found.get(page.as_uri())

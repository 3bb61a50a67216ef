"""The console's page in a browser, as a reader uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.browser import CSS
from tests.support.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable

    from selenium import webdriver
    from selenium.webdriver.remote.webelement import WebElement

PATIENCE_S = 15
LARGE = 1280


class ConsolePage:
    """One broker's console in a browser."""

    def __init__(self, driver: webdriver.Chrome, room: Console) -> None:
        self.driver, self.room = driver, room

    def open(self, path: str, *, width: int = LARGE, height: int = 900, dark: bool = False) -> None:
        """A room, on a screen of that size, anew."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.get("about:blank")
        self.complaints()
        self.driver.get(f"{self.room.url}#{path}")

    @property
    def text(self) -> str:
        """All that is to be read on it."""
        shown: str = self.driver.execute_script("return document.body.innerText")
        return shown

    def texts(self, css: str) -> list[str]:
        """What elements say, in one look."""
        script = "return [...document.querySelectorAll(arguments[0])].map(each => each.innerText)"
        found: list[str] = self.driver.execute_script(script, css)
        return found

    def wait_for(self, text: str) -> None:
        """Until it is to be read."""
        self.until(lambda: text in self.text, text)

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for it. Raises TimeoutError with all that is on the page."""
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.wait import WebDriverWait

        try:
            WebDriverWait(self.driver, PATIENCE_S, 0.05).until(lambda _: holds())
        except TimeoutException:
            raise TimeoutError(f"waited in vain for {what!r} on the page: {self.text}") from None

    def find(self, css: str, text: str = "") -> WebElement:
        """The first element that says it in its first line; waits until there is one."""
        found: list[WebElement] = []
        script = (
            "return [...document.querySelectorAll(arguments[0])].find("
            "each => !arguments[1] || each.innerText.trim().split('\\n')[0].trim() === arguments[1]) ?? null"
        )

        def look() -> bool:
            element = self.driver.execute_script(script, css, text)
            found[:] = [element] if element is not None else []
            return bool(found)

        self.until(look, f"{css} {text}")
        return found[0]

    def complaints(self) -> list[str]:
        """What the browser says of errors and of what the page's policy forbids, since it was asked last."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def focused(self) -> str:
        """What the element with the focus says."""
        said: str = self.driver.execute_script("return document.activeElement.innerText ?? ''")
        return said

    def field(self, label: str) -> WebElement:
        """The field of a label."""
        return self.driver.find_element(CSS, f'[aria-label="{label}"]')

"""The console's page in a browser, used as a user would."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.browser import ID
from tests.support.console import HOST, AnyConsole

if TYPE_CHECKING:
    from selenium import webdriver
    from selenium.webdriver.remote.webelement import WebElement

TIMEOUT_S = 60
"""The time limit of each wait, in seconds: so long that even a busy machine exceeds it only if something hangs."""
LARGE, SMALL = 1280, 390
PICTURES = "OTTLA_CONSOLE_PICTURES"
"""The environment variable that names a directory for screenshots. Without it, no screenshots are made."""
READABLE = 4.5
"""The minimum contrast ratio of text (WCAG 2, level AA)."""
CONTRAST = """
    const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const parts = c => c.match(/[\\d.]+/g).map(Number);
    const light = c => { const [r, g, b] = parts(c).map(v => linear(v / 255)); return .2126 * r + .7152 * g + .0722 * b; };
    const paper = e => { const c = getComputedStyle(e).backgroundColor; return (parts(c)[3] ?? 1) === 1 ? c : paper(e.parentElement); };
    const said = e => [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.nodeValue.trim()).join("");
    const shown = e => said(e) && e.checkVisibility() && !e.disabled && !e.closest("noscript, title");
    return [...document.querySelectorAll("body *")].filter(shown).map(e => {
        const ink = light(getComputedStyle(e).color), under = light(paper(e));
        return [(Math.max(ink, under) + .05) / (Math.min(ink, under) + .05), `${e.tagName} ${said(e).slice(0, 40)}`]; });
"""


class ConsolePage:
    """The console of one broker or gateway in a browser."""

    def __init__(self, driver: webdriver.Chrome, console: AnyConsole) -> None:
        self.driver, self.console = driver, console

    def open(self, path: str, *, width: int = LARGE, dark: bool = False, host: str = "") -> None:
        """Open a view of the console at the given screen width, colour scheme and host name."""
        self.look(width=width, dark=dark)
        self.driver.get("about:blank")
        self.complaints()
        self.driver.get(f"{self.console.url.replace(HOST, host or HOST)}#{path}")

    def look(self, *, width: int = LARGE, height: int = 900, dark: bool = False) -> None:
        """Set the window's size and the colour scheme; animations are off."""
        features = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        media = [{"name": name, "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def pictures(self, name: str, *, height: int) -> None:
        """Take screenshots of the page: light, dark, and at the width of a small screen."""
        self.picture(f"{name}-light", height=height)
        self.picture(f"{name}-dark", height=height, dark=True)
        self.picture(f"{name}-small", height=760, width=SMALL)

    def picture(self, name: str, *, height: int, width: int = LARGE, dark: bool = False) -> None:
        """Take one screenshot, with a reduced palette to keep the file small."""
        if PICTURES not in os.environ:
            return
        from PIL import Image

        self.look(width=width, height=height, dark=dark)
        shot = Image.open(io.BytesIO(self.driver.get_screenshot_as_png())).convert("RGB")
        shot.quantize(256, method=Image.Quantize.MEDIANCUT, kmeans=3, dither=Image.Dither.NONE).save(
            Path(os.environ[PICTURES]) / f"console-{name}.png", optimize=True
        )
        self.look()

    @property
    def text(self) -> str:
        """The visible text of the page."""
        shown: str = self.driver.execute_script("return document.body.innerText")
        return shown

    def texts(self, css: str) -> list[str]:
        """Return the texts of the elements that match a CSS selector, read at one moment."""
        script = "return [...document.querySelectorAll(arguments[0])].map(each => each.innerText)"
        found: list[str] = self.driver.execute_script(script, css)
        return found

    def wait_for(self, text: str) -> None:
        """Wait until the page shows the text."""
        self.until(lambda: text in self.text, text)

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until `holds` returns true. Raises TimeoutError with the text of the page."""
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.wait import WebDriverWait

        try:
            WebDriverWait(self.driver, TIMEOUT_S, 0.05).until(lambda _: holds())
        except TimeoutException:
            raise TimeoutError(f"waited in vain for {what!r} on the page: {self.text}") from None

    def find(self, css: str, text: str = "") -> WebElement:
        """Return the first matching element whose first line contains the text; wait until there is one."""
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

    def complaints(self, expected: str | None = None) -> list[str]:
        """Return errors and policy violations that the browser has logged since the last call, except those that contain `expected`."""
        messages = [entry["message"] for entry in self.driver.get_log("browser")]
        return [each for each in messages if expected is None or expected not in each]

    def contrasts(self) -> list[tuple[float, str]]:
        """Return (contrast ratio, text) of each visible text."""
        return [tuple(each) for each in self.driver.execute_script(CONTRAST)]

    def wait_for_view(self, name: str) -> None:
        """Wait until the view of that name has loaded."""
        shown = f'return document.querySelector("main")?.dataset.view === "{name.lower()}" && !!document.querySelector("main section")'
        self.until(lambda: self.driver.execute_script(shown), name)

    def give_token(self, token: str) -> None:
        """Enter the console's token in the page's dialog."""
        self.until(lambda: self.driver.execute_script("return document.querySelector('dialog').open"), "the dialog")
        self.driver.find_element(ID, "ask-token").send_keys(token)
        self.find("dialog button", "Use it").click()

    def forget_token(self) -> None:
        """Delete the token that the page has stored."""
        self.driver.get(self.console.url)
        self.driver.execute_script("sessionStorage.clear()")

    def hold(self, condition: str) -> None:
        """Hold the responses to requests for which the JavaScript on `path` and `options` is true. Replaces the condition of an earlier
        call."""
        script = f"""
            window.send ??= window.fetch;
            window.held ??= [];
            window.fetch = async (path, options) => {{
                const holds = {condition}, answer = await send(path, options);
                if (holds) await new Promise(go => held.push({{ method: options.method, go }}));
                return answer;
            }};"""
        self.driver.execute_script(script)

    def wait_for_held(self, *methods: str) -> None:
        """Wait until `hold` holds responses to requests of exactly these HTTP methods."""
        self.until(lambda: set(self.driver.execute_script("return held.map(each => each.method)")) == set(methods), "held responses")

    def release(self, method: str) -> None:
        """Give the page the held responses to requests of this HTTP method."""
        script = "held = held.filter(each => each.method !== arguments[0] || each.go())"
        self.driver.execute_script(script, method)

    def press(self, key: str) -> None:
        """Press a key in the browser."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(key).perform()

    def focused(self) -> str:
        """Return the text of the element that has the keyboard focus."""
        messages: str = self.driver.execute_script("return document.activeElement.innerText ?? ''")
        return messages

"""A user who sees an installation for the first time: each click is counted, and each page that is seen is checked."""

from typing import Final
from urllib.parse import urlsplit

from playwright.sync_api import Frame, Locator, Page

from tests.support.browser.browser_window import BrowserWindow

MAX_FIRST_LOAD_BYTES: Final = 300_000
_TRANSFERRED_BYTES: Final = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const loaded = performance.getEntriesByType("resource").filter(({startTime}) => startTime <= page.loadEventEnd);
  return [page, ...loaded].reduce((sum, {transferSize}) => sum + transferSize, 0);
}"""
"""Compressed bytes, with headers, of the page and what it requested until it was loaded."""


class Newcomer:
    """Uses one browser window. The browser's cache is off, so that each page is a first load."""

    def __init__(self, window: BrowserWindow) -> None:
        self.window = window
        self.page: Page = window.page
        self.clicks = 0
        self._seen: set[str] = set()
        self._checked: set[str] = set()
        self.page.on("framenavigated", self._on_navigation)
        session = self.page.context.new_cdp_session(self.page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})

    def click(self, target: Locator) -> None:
        """Click as soon as the page's scripts run, which is before a person could."""
        self.clicks += 1
        target.wait_for()
        self.window.wait_until_live()
        target.click()

    def type_into(self, field: Locator, text: str) -> None:
        """Click a field, and replace its text by typing."""
        self.click(field)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(text)

    def check_page(self) -> None:
        """Fail if the page has a serious violation of accessibility, or if its first load is too large."""
        self.page.wait_for_load_state("load")
        path = self._path()
        self.window.check_accessibility()
        transferred: int = self.page.evaluate(_TRANSFERRED_BYTES)
        assert 0 < transferred <= MAX_FIRST_LOAD_BYTES, f"{path}: {transferred} bytes"
        self._checked.add(path)

    def check_all(self) -> None:
        """Fail if a page was seen and not checked, or if any page logged an error or sent a request to another host."""
        unchecked = self._seen - self._checked
        assert not unchecked, unchecked
        self.window.check()

    def _path(self) -> str:
        return urlsplit(self.page.url).path

    def _on_navigation(self, frame: Frame) -> None:
        if frame == self.page.main_frame and frame.url.startswith("http"):
            self._seen.add(urlsplit(frame.url).path)

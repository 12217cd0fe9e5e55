"""A browser page that records errors, foreign requests and accessibility violations during a test."""

import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Error, Page, Request, expect

from tests.support.paths import ROOT

AXE: Final = ROOT / "services" / "api" / "web" / "vendor" / "for_tests" / "axe.min.js"
SCREENSHOTS: Final = Path("build") / "screenshots"
WIDE: Final = {"width": 1280, "height": 800}
NARROW: Final = {"width": 390, "height": 844}
_SERIOUS: Final = ("serious", "critical")


def answer_dialog(page: Page, button: str) -> None:
    """Press a button of the dialog that asks before a form is sent."""
    dialog = page.locator("dialog.confirm")
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(dialog).to_have_count(0)


def confirm_dialog(page: Page) -> None:
    """Agree to what the dialog asks, whatever its button is called."""
    dialog = page.locator("dialog.confirm")
    dialog.get_by_role("button").last.click()
    expect(dialog).to_have_count(0)


class BrowserWindow:
    """A Playwright page that records its problems; `expected` lists those that a test causes on purpose."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self._base = base
        self._origin = urlsplit(base).netloc
        self.problems: list[str] = []
        self.expected: list[str] = []
        """Parts of the messages of problems that the test causes on purpose."""
        page.on("console", self._on_console)
        page.on("pageerror", self._on_page_error)
        page.on("request", self._on_request)

    def open(self, path: str) -> Page:
        """Load a page, and wait for its live stream if it has one."""
        self.page.goto(f"{self._base}{path}")
        self.wait_until_live()
        return self.page

    def wait_until_live(self) -> None:
        """Wait for the page's live stream, if it has one. It starts when all scripts have run."""
        if self.page.locator("#live-state").count():
            self.page.locator('#live-state[data-state="live"]').wait_for(state="attached")

    def check(self) -> None:
        """Fail if the page logged an unexpected error or warning, or sent a request to another host."""
        unexpected = [
            problem
            for problem in self.problems
            if not any(part in problem for part in self.expected)
        ]
        assert not unexpected, "\n".join(unexpected)

    def check_accessibility(self, *, ignored_rules: tuple[str, ...] = ()) -> None:
        """Fail if axe-core finds a serious violation. `ignored_rules` are rule ids."""
        if not self.page.evaluate("typeof window.axe === 'object'"):
            # Evaluated by the debugger: the page's content security policy blocks scripts.
            self.page.evaluate(AXE.read_text())
        report: dict[str, Any] = self.page.evaluate(
            "axe.run(document, {resultTypes: ['violations']})"
        )
        serious = [
            f"{violation['id']}: {violation['help']} {json.dumps([node['html'][:200] for node in violation['nodes'][:3]])}"
            for violation in report["violations"]
            if violation["impact"] in _SERIOUS and violation["id"] not in ignored_rules
        ]
        assert not serious, "\n".join(serious)

    def screenshot(self, name: str) -> None:
        """Save light, dark and narrow screenshots for review, and check the accessibility of each."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for variant, size, color_scheme in (
            ("light", WIDE, "light"),
            ("dark", WIDE, "dark"),
            ("narrow", NARROW, "light"),
        ):
            self.page.set_viewport_size(size)  # type: ignore[arg-type]  # a TypedDict of these two
            self.page.emulate_media(color_scheme=color_scheme)  # type: ignore[arg-type]  # one of its literals
            self.check_accessibility()
            self.page.screenshot(path=SCREENSHOTS / f"{name}-{variant}.png", full_page=True)
        self.page.set_viewport_size(WIDE)  # type: ignore[arg-type]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{self.page.url}: {message.text}")

    def _on_page_error(self, error: Error) -> None:
        self.problems.append(f"{self.page.url}: {error}")

    def _on_request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("blob", "data") and url.netloc != self._origin:
            self.problems.append(f"{self.page.url} asks {request.url}")

"""A page that is watched while a test uses it: what it asked for, what it complained of, and who could not use it."""

import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Error, Page, Request

from tests.support.paths import ROOT

AXE: Final = ROOT / "services" / "api" / "web" / "vendor" / "for_tests" / "axe.min.js"
SHOTS: Final = Path("build") / "screenshots"
WIDE: Final = {"width": 1280, "height": 800}
NARROW: Final = {"width": 390, "height": 844}
_SERIOUS: Final = ("serious", "critical")


class Watched:
    """`page` is Playwright's; `refusals` that the test brings about on purpose are let pass by `expected`."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self._base = base
        self._origin = urlsplit(base).netloc
        self.complaints: list[str] = []
        self.expected: list[str] = []
        """Parts of complaints that the test brings about on purpose."""
        page.on("console", self._heard)
        page.on("pageerror", self._broke)
        page.on("request", self._asked)

    def open(self, path: str) -> Page:
        """Loads it, and waits until the live stream is there, where the page has one."""
        self.page.goto(f"{self._base}{path}")
        if self.page.locator("#live-state").count():
            self.page.locator('#live-state[data-state="live"]').wait_for(state="attached")
        return self.page

    def check(self) -> None:
        """Fails where the page complained of anything, or asked anybody else for anything."""
        left = [each for each in self.complaints if not any(word in each for word in self.expected)]
        assert not left, "\n".join(left)

    def check_access(self, *, but: tuple[str, ...] = ()) -> None:
        """Fails where axe-core finds that somebody could not read or use the page. `but` are ids of rules, none so far."""
        if not self.page.evaluate("typeof window.axe === 'object'"):
            # By the debugger: the page's own policy lets no script in.
            self.page.evaluate(AXE.read_text())
        found: dict[str, Any] = self.page.evaluate(
            "axe.run(document, {resultTypes: ['violations']})"
        )
        serious = [
            f"{each['id']}: {each['help']} {json.dumps([node['html'][:200] for node in each['nodes'][:3]])}"
            for each in found["violations"]
            if each["impact"] in _SERIOUS and each["id"] not in but
        ]
        assert not serious, "\n".join(serious)

    def shoot(self, name: str) -> None:
        """Light, dark and narrow, with axe's word on each; kept for people to look at."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        for look, size, scheme in (
            ("light", WIDE, "light"),
            ("dark", WIDE, "dark"),
            ("narrow", NARROW, "light"),
        ):
            self.page.set_viewport_size(size)  # type: ignore[arg-type]  # a TypedDict of these two
            self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of its words
            self.check_access()
            self.page.screenshot(path=SHOTS / f"{name}-{look}.png", full_page=True)
        self.page.set_viewport_size(WIDE)  # type: ignore[arg-type]

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{self.page.url}: {message.text}")

    def _broke(self, error: Error) -> None:
        self.complaints.append(f"{self.page.url}: {error}")

    def _asked(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme not in ("blob", "data") and url.netloc != self._origin:
            self.complaints.append(f"{self.page.url} asks {request.url}")

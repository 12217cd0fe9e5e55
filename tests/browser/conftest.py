"""One installation for all tests of the web UI, with an agent that has completed an iteration."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.browser.browser_window import WIDE, BrowserWindow
from tests.support.e2e.installation import MISSION, Installation, installed

_CHROMIUM_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_ARGUMENTS: Final = [
    # Most containers have no user namespaces, which Chromium's own sandbox needs; it opens only our pages.
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]


def chromium_path() -> str:
    """The path of Chromium: $VIGIL_CHROMIUM or an installed one. Raises FileNotFoundError."""
    setting = os.environ.get("VIGIL_CHROMIUM")
    path = setting or next(filter(None, map(shutil.which, _CHROMIUM_NAMES)), None)
    if path is None:
        raise FileNotFoundError(
            "There is no Chromium here: `apt install chromium`, or name one by VIGIL_CHROMIUM."
        )
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


AGENT = "Battery watch"


@dataclass(frozen=True)
class SharedInstallation:
    """An installation, its base URL, and an agent that tests may read but not change."""

    vigil: Installation
    base: str
    agent_id: str

    def link(self, user: str | None = None) -> str:
        """Create a single-use sign-in link."""
        result = self.vigil.vigil("sign-in-link", *(["--user", user] if user else []))
        assert result.returncode == 0, result.stderr
        (link,) = re.findall(r"http://\S+secret=\S+", result.stdout)
        return str(link)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedInstallation]:
    with installed(tmp_path_factory.mktemp("window"), is_paced=True) as vigil:
        vigil.up()
        agent = vigil.json("agent", "create", MISSION, "--name", AGENT, "--interval", "1d")
        vigil.ended_iteration(AGENT, 1)
        yield SharedInstallation(vigil, vigil.running.api_url, agent["id"])


@pytest.fixture(scope="session")
def cookies(
    installation: SharedInstallation, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The file with the cookies of the signed-in owner."""
    state_file = tmp_path_factory.mktemp("cookies") / "state.json"
    context = browser.new_context()
    page = context.new_page()
    page.goto(installation.link())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/agents")
    state_file.write_text(json.dumps(context.storage_state()))
    context.close()
    return state_file


WindowFactory = Callable[[], BrowserWindow]


@pytest.fixture
def open_window(installation: SharedInstallation, browser: Browser) -> Iterator[WindowFactory]:
    """Open browser windows without a signed-in user, and check them afterwards."""
    windows: list[BrowserWindow] = []

    def create_window() -> BrowserWindow:
        context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]  # a TypedDict of these two
        windows.append(BrowserWindow(context.new_page(), installation.base))
        return windows[-1]

    yield create_window
    for browser_window in windows:
        browser_window.page.context.close()
        browser_window.check()


@pytest.fixture
def window(
    installation: SharedInstallation, browser: Browser, cookies: Path
) -> Iterator[BrowserWindow]:
    """The owner's browser window. The test fails if a page logs an error or sends a request to another host."""
    context = browser.new_context(viewport=WIDE, storage_state=cookies)  # type: ignore[arg-type]
    browser_window = BrowserWindow(context.new_page(), installation.base)
    yield browser_window
    context.close()
    browser_window.check()

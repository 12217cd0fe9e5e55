"""One installation for all tests of the window, with an agent that has finished an iteration."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.browser.chromium import chromium
from tests.support.browser.watched import WIDE, Watched
from tests.support.e2e.installation import MISSION, Installation, installed

AGENT = "Battery watch"


@dataclass(frozen=True)
class Known:
    """An installation, its address, and the agent that tests may look at but not change."""

    vigil: Installation
    base: str
    agent_id: str

    def link(self, user: str | None = None) -> str:
        """A sign-in link, used once."""
        told = self.vigil.vigil("sign-in-link", *(["--user", user] if user else []))
        assert told.returncode == 0, told.stderr
        (link,) = re.findall(r"http://\S+secret=\S+", told.stdout)
        return str(link)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    with installed(tmp_path_factory.mktemp("window")) as vigil:
        vigil.up()
        made = vigil.json("agent", "create", MISSION, "--name", AGENT, "--interval", "1d")
        vigil.ended_iteration(AGENT, 1)
        yield Known(vigil, vigil.running.api_url, made["id"])


@pytest.fixture(scope="session")
def cookies(known: Known, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a browser keeps that the owner is signed in."""
    kept = tmp_path_factory.mktemp("cookies") / "state.json"
    context = browser.new_context()
    page = context.new_page()
    page.goto(known.link())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/agents")
    kept.write_text(json.dumps(context.storage_state()))
    context.close()
    return kept


Opener = Callable[[], Watched]


@pytest.fixture
def another(known: Known, browser: Browser) -> Iterator[Opener]:
    """Opens browsers in which nobody is signed in; each is watched."""
    opened: list[Watched] = []

    def open_one() -> Watched:
        context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]  # a TypedDict of these two
        opened.append(Watched(context.new_page(), known.base))
        return opened[-1]

    yield open_one
    for each in opened:
        each.page.context.close()
        each.check()


@pytest.fixture
def window(known: Known, browser: Browser, cookies: Path) -> Iterator[Watched]:
    """The owner's browser. Fails a test whose page complained, or asked anybody but Vigil for anything."""
    context = browser.new_context(viewport=WIDE, storage_state=cookies)  # type: ignore[arg-type]
    watched = Watched(context.new_page(), known.base)
    yield watched
    context.close()
    watched.check()

"""The first hour of a new user, from `vigil up` on an empty folder to a budget, in fewer than 25 clicks."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Frame, Locator, Page, expect

from cli.commands.local import DEFAULT_MISSION
from tests.support.browser.agents import ITERATION_TIMEOUT_MS
from tests.support.browser.browser_window import WIDE, BrowserWindow
from tests.support.e2e.installation import Installation, installed
from tests.support.waiting import wait_for

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


pytestmark = pytest.mark.browser

MAX_CLICKS = 24
MAX_ITERATIONS = 4
"""By then, the sandbox gives advice on the mission."""
ANSWER_TIMEOUT_MS = 30_000
RETRACTION_TIMEOUT_MS = 30_000
SETTLE_TIMEOUT_MS = 30_000


@pytest.fixture
def vigil(tmp_path: Path) -> Iterator[Installation]:
    """A new installation as its user starts it: the sandbox, with the documents that come with it."""
    with installed(tmp_path) as installation:
        installation.up(corpus=None)
        yield installation


def test_the_first_hour_takes_few_clicks(vigil: Installation, browser: Browser) -> None:
    context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]  # a TypedDict of these two
    window = BrowserWindow(context.new_page(), vigil.running.api_url)
    # Without a graphics card the browser logs each slow read of the graph's canvas.
    window.expected.append("GPU stall")
    user = Newcomer(window)
    sign_in(user, vigil)
    create_agent(user)
    watch_until_advice(user)
    subject = read_advice_down_to_its_sentence(user)
    dismiss_advice(user)
    ask_question(user, subject)
    find_node(user, subject)
    retract_source(user)
    cap_budget(user)
    user.check_all()
    context.close()
    print(f"The first hour takes {user.clicks} clicks.")
    assert user.clicks <= MAX_CLICKS


def sign_in(user: Newcomer, vigil: Installation) -> None:
    """Open the link that `vigil up` prints at its first start."""

    def link() -> str | None:
        match = re.search(r"In a browser: (http://\S+)", vigil.output)
        return match and match[1]

    user.page.goto(wait_for(link, "vigil up to print a sign-in link"))
    user.check_page()
    user.click(user.page.get_by_role("button", name="Sign in"))
    expect(user.page.get_by_role("heading", name="No agents yet")).to_be_visible()
    user.check_page()


def create_agent(user: Newcomer) -> None:
    page = user.page
    user.click(page.get_by_role("link", name="Create your first agent"))
    expect(page.locator("#forecast")).to_contain_text("Not billed")
    expect(page.locator("#forecast")).to_contain_text("288 a day")
    user.check_page()
    # The mission of `vigil demo` is among the examples.
    user.click(page.locator(f'button[data-text="{DEFAULT_MISSION}"]'))
    expect(page.get_by_label("Mission")).to_have_value(DEFAULT_MISSION)
    user.click(page.get_by_role("button", name="Create agent"))
    page.wait_for_url("**/agents/*-*")


def watch_until_advice(user: Newcomer) -> None:
    """The page shows the configuration and each iteration without a reload, until one gives advice."""
    page = user.page
    for number in range(1, MAX_ITERATIONS + 1):
        page.evaluate("window.stayed = true")
        flow = page.get_by_role("region", name=f"Iteration {number}", exact=True)
        expect(flow.locator(".flow-head").get_by_text("completed")).to_be_visible(
            timeout=ITERATION_TIMEOUT_MS
        )
        assert page.evaluate("window.stayed"), "the page was loaded again"
        if "advice" in flow.locator(".flow-facts").inner_text():
            user.check_page()
            return
        user.click(page.get_by_role("button", name="Run now"))
        page.wait_for_function("!window.stayed")
    raise AssertionError(f"no advice in {MAX_ITERATIONS} iterations")


def read_advice_down_to_its_sentence(user: Newcomer) -> str:
    """Open the advice, a quote of its evidence, and the page with the sentence. Returns what the sentence is about."""
    page = user.page
    user.click(page.locator("#learned").get_by_role("link", name=re.compile("^Advice: ")).first)
    quote = page.locator("#chain li[data-kind=evidence]").filter(visible=True).first
    sentence = quote.locator("blockquote mark").inner_text()
    expect(page.locator("#seal")).to_contain_text("sentences found")
    user.check_page()
    user.click(quote.locator(".to-page"))
    marked = page.locator(".page-text mark[data-chosen]").first
    expect(marked).to_be_in_viewport()
    assert marked.inner_text() in sentence
    user.check_page()
    return page.locator(".rests li[data-chosen]").get_by_role("link").last.inner_text()


def dismiss_advice(user: Newcomer) -> None:
    page = user.page
    user.click(page.get_by_role("navigation", name="Main").get_by_role("link", name="Inbox"))
    row = page.locator(".inbox .row[data-unread]").first
    title = row.locator(".row-title").inner_text()
    user.check_page()
    user.click(row)
    item = page.get_by_role("article", name=title)
    expect(item.locator("#proof blockquote").first).to_be_visible()
    user.check_page()
    user.click(item.get_by_role("button", name="Dismiss"))
    expect(page.locator("#inbox-said")).to_contain_text(f"Dismissed: {title}")
    expect(page.locator(".inbox .row", has_text=title)).to_have_count(0)


def ask_question(user: Newcomer, subject: str) -> None:
    page = user.page
    user.click(page.get_by_role("navigation", name="Main").get_by_role("link", name="Agents"))
    expect(page.locator("[data-agent-row]")).to_have_count(1)
    user.check_page()
    user.click(page.locator("[data-agent-row] .main-link"))
    user.click(tab(user, "Conversation"))
    user.type_into(page.get_by_label("Message to"), f"What do you know of {subject}?")
    page.keyboard.press("Enter")
    answer = page.locator(".said[data-kind=answer]").last
    expect(answer.locator(".words.rich")).to_contain_text(subject, timeout=ANSWER_TIMEOUT_MS)
    user.check_page()


def find_node(user: Newcomer, name: str) -> None:
    page = user.page
    user.click(tab(user, "Graph"))
    page.locator('#stage[data-state="settled"]').wait_for(timeout=SETTLE_TIMEOUT_MS)
    user.type_into(page.get_by_label("Find in the graph"), name)
    expect(page.locator("#find-count")).to_have_text(re.compile(r"\d+ match"))
    page.keyboard.press("Enter")
    expect(page.locator("#side").get_by_role("heading", name=name, exact=True)).to_be_visible()
    user.check_page()


def retract_source(user: Newcomer) -> None:
    """Of the node in the panel beside the graph. Conclusions that rest on it come into doubt."""
    page = user.page
    user.click(page.locator("#side").get_by_role("link", name="Retract source").first)
    user.click(page.get_by_text("Retract this page"))
    expect(page.locator(".foreseen")).to_contain_text("would be in doubt")
    user.check_page()
    user.type_into(page.get_by_label("Reason"), "The figures are out of date")
    user.click(page.get_by_role("button", name="Retract", exact=True))
    belief = page.locator("#belief")
    expect(belief).to_contain_text("Reason: The figures are out of date")
    expect(belief.get_by_role("link", name="are in doubt")).to_be_visible(
        timeout=RETRACTION_TIMEOUT_MS
    )
    user.check_page()


def cap_budget(user: Newcomer) -> None:
    page = user.page
    user.click(tab(user, "Settings"))
    user.type_into(page.get_by_label("US dollars a day"), "2.5")
    user.click(page.get_by_role("button", name="Save", exact=True))
    expect(page.get_by_role("status").filter(has_text="Settings saved")).to_be_visible()
    expect(page.get_by_label("US dollars a day")).to_have_value("2.5")
    user.check_page()


def tab(user: Newcomer, name: str) -> Locator:
    return user.page.get_by_role("navigation", name="Agent").get_by_role("link", name=name)

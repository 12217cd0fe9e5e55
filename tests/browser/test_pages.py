"""Every page opens without errors or accessibility violations."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser.browser_window import NARROW, BrowserWindow

pytestmark = pytest.mark.browser

GLOBAL_PAGES = (
    "/agents",
    "/agents/new",
    "/inbox",
    "/costs",
    "/events",
    "/dead-letters",
    "/health-of-all",
    "/settings",
    "/settings/tokens",
    "/settings/destinations",
    "/settings/users",
)
AGENT_PAGES = (
    "",
    "/iterations",
    "/iterations/1",
    "/graph",
    "/types",
    "/conclusions",
    "/sources",
    "/duplicates",
    "/conversation",
    "/costs",
    "/settings",
    "/settings/prompts/observer",
)


@pytest.mark.parametrize("path", GLOBAL_PAGES)
def test_a_page_opens(window: BrowserWindow, path: str) -> None:
    page = window.open(path)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    window.check_accessibility()


@pytest.mark.parametrize("path", AGENT_PAGES)
def test_a_page_of_an_agent_opens(
    window: BrowserWindow, installation: SharedInstallation, path: str
) -> None:
    page = window.open(f"/agents/{installation.agent_id}{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("#agent-state .pill")).to_be_visible()
    if path == "/graph":
        # Without a graphics card the browser logs each slow read of the canvas.
        window.expected.append("GPU stall")
    window.check_accessibility()


MAX_CONTENT_TOP = 200
"""On a phone, in pixels."""
# Of the topmost text or control; an element may stand higher than those before it.
_CONTENT_TOP = """() => {
  const head = ".banner, .crumbs, .head, nav, .told";
  const isSeen = (each) => each.checkVisibility({visibilityProperty: true}) && !each.matches(".unseen");
  const content = [...document.querySelectorAll("main > *")].find((each) => !each.matches(head) && isSeen(each));
  const leaves = [...content.querySelectorAll("*")].filter((each) => !each.children.length && isSeen(each));
  return Math.min(...leaves.map((each) => each.getBoundingClientRect().top));
}"""


@pytest.mark.parametrize("path", AGENT_PAGES)
def test_the_content_of_an_agents_page_begins_high_on_a_phone(
    window: BrowserWindow, installation: SharedInstallation, path: str
) -> None:
    window.page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    page = window.open(f"/agents/{installation.agent_id}{path}")
    window.expected.append("GPU stall")
    page.locator("#agent-name").evaluate(
        "(name) => { name.textContent = 'Long name '.repeat(20); }"
    )
    top = page.evaluate(_CONTENT_TOP)
    assert 0 < top <= MAX_CONTENT_TOP, f"the content begins at {top} px"

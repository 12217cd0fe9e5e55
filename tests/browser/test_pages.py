"""Every page opens without errors or accessibility violations."""

from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser import graphs
from tests.support.browser.browser_window import NARROW, WIDE, BrowserWindow
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

pytestmark = pytest.mark.browser

GLOBAL_PAGES = (
    "/agents",
    "/agents/new",
    "/inbox",
    "/costs",
    "/operate",
    "/settings",
    "/settings/tokens",
    "/settings/destinations",
    "/settings/users",
)
AGENT_PAGES = CASES["agent_pages"]
LONG_NAME = ("Lithium supply of battery makers in Europe and their mines " * 4)[:200]
SCROLLED_WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def long_named_agent_id(installation: SharedInstallation) -> UUID:
    return graphs.create_large_graph(installation, LONG_NAME, node_count=2, edge_count=0)


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
  const head = ".banner, #outages, .crumbs, .head, nav, .page-error";
  const isSeen = (each) => each.checkVisibility({visibilityProperty: true}) && !each.matches(".unseen");
  const content = [...document.querySelectorAll("main > *")].find((each) => !each.matches(head) && isSeen(each));
  const leaves = [...content.querySelectorAll("*")].filter((each) => !each.children.length && isSeen(each));
  return Math.min(...leaves.map((each) => each.getBoundingClientRect().top));
}"""


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_page_scrolls_sideways_because_of_a_long_name(
    window: BrowserWindow, long_named_agent_id: UUID, size: dict[str, int]
) -> None:
    window.expected.append("GPU stall")
    window.page.set_viewport_size(size)  # type: ignore[arg-type]  # a TypedDict of these two
    of_agent = (f"/agents/{long_named_agent_id}{path}" for path in ("", "/graph", "/settings"))
    for path in (*GLOBAL_PAGES, *of_agent):
        page = window.open(path)
        assert page.evaluate(SCROLLED_WIDTH) <= size["width"], path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "tab"), [("/sources", "Sources"), ("/settings", "Settings"), ("", "Now")]
)
def test_a_phone_shows_the_current_tab_and_fades_the_edge_that_hides_others(
    window: BrowserWindow, installation: SharedInstallation, path: str, tab: str
) -> None:
    window.page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    page = window.open(f"/agents/{installation.agent_id}{path}")
    current = page.get_by_role("navigation", name="Agent").get_by_role("link", name=tab, exact=True)
    expect(current).to_have_attribute("aria-current", "page")
    expect(current).to_be_in_viewport(ratio=0.95)
    row = page.locator(".tabs")
    is_first, is_last = tab == "Now", tab == "Settings"
    # The page sets them after it has scrolled.
    for attribute, is_edge in (("data-more-before", is_first), ("data-more-after", is_last)):
        fades = expect(row)
        (fades.not_to_have_attribute if is_edge else fades.to_have_attribute)(attribute, "")
    assert "linear-gradient" in row.evaluate("row => getComputedStyle(row).maskImage")
    # At full width all tabs fit.
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    expect(row).not_to_have_attribute("data-more-before", "")
    expect(row).not_to_have_attribute("data-more-after", "")

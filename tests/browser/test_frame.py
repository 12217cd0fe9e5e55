"""The frame of all pages: the palette, the list of keys, and the menu of a phone."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import AGENT, SharedInstallation
from tests.support.browser.browser_window import NARROW, WIDE, BrowserWindow
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_palette_shows_what_all_agents_hold(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/costs")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Search and commands")
    expect(palette.get_by_role("option", name="New agent")).to_be_visible()
    page.keyboard.type("halden")
    expect(palette.get_by_role("group", name="Nodes")).to_be_visible()
    window.screenshot("palette")
    page.get_by_role("combobox").fill("iteration 1 battery")
    found = palette.get_by_role("option", name="Iteration 1").filter(has_text=AGENT)
    found.click()
    page.wait_for_url(f"**/agents/{installation.agent_id}/iterations/1")


def test_the_list_of_keys_has_those_of_the_page(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open(f"/agents/{installation.agent_id}/iterations/1")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("first or last row")
    expect(dialog).to_contain_text("light or dark theme")
    window.screenshot("keys")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_the_menu_of_a_phone_has_all_pages_and_the_theme(window: BrowserWindow) -> None:
    page = window.page
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    window.open("/agents")
    menu = page.get_by_role("button", name="Menu")
    operate = page.get_by_role("link", name="Operate")
    expect(operate).to_be_hidden()
    menu.click()
    expect(menu).to_have_attribute("aria-expanded", "true")
    expect(operate).to_be_visible()
    expect(page.locator("[data-theme-switch]").first).to_be_visible()
    window.screenshot("phone-menu")
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    operate.click()
    page.wait_for_url("**/operate")
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]  # a TypedDict of these two


PAGES = (
    "/agents",
    "/inbox",
    "/costs",
    "/operate",
    "/agents/{agent}",
    "/agents/{agent}/conversation",
)
TABS = 9
LOADED_MS = 20_000


@pytest.mark.parametrize("path", [PAGES[0], PAGES[-1], "mixed"])
def test_any_number_of_pages_can_be_open_in_one_browser(
    window: BrowserWindow, installation: SharedInstallation, path: str
) -> None:
    window.open("/agents")
    context = window.page.context
    pages = [context.new_page() for _ in range(TABS)]
    for number, page in enumerate(pages):
        each = PAGES[number % len(PAGES)] if path == "mixed" else path
        address = f"{installation.base}{each.format(agent=installation.agent_id)}"
        page.goto(address, wait_until="domcontentloaded", timeout=LOADED_MS)
    # The page Operate reads a stream of its own, of which few are open at once.
    live = [page for page in [window.page, *pages] if not page.url.endswith("/operate")]
    for page in live:
        page.locator('#live-state[data-state="live"]').wait_for(state="attached", timeout=LOADED_MS)
        page.evaluate(
            "document.body.addEventListener('vigil:event', () => { window.hasHeard = true; })"
        )
    pages[-1].keyboard.press("Control+k")
    pages[-1].keyboard.type("halden")
    expect(pages[-1].get_by_role("group", name="Nodes")).to_be_visible()
    installation.vigil.json("agent", "create", "Watch tin mines in Bolivia", "--name", "Tin")
    try:
        for page in live:
            if not page.locator("[data-live][data-agent]").count():
                _wait_for_value(page, "window.hasHeard")
    finally:
        installation.vigil.vigil("agent", "delete", "Tin", "--yes")


def test_pages_are_live_without_shared_workers(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    window.page.add_init_script("delete globalThis.SharedWorker")
    page = window.open(f"/agents/{installation.agent_id}")
    assert page.evaluate("typeof globalThis.SharedWorker") == "undefined"
    page.reload()
    window.wait_until_live()


def _wait_for_value(page: Page, name: str) -> None:
    """Wait until the value is true or not zero. Playwright's wait_for_function needs `eval`, which pages do not allow."""
    wait_for(lambda: page.evaluate(name) or None, what=f"{name} in {page.url}")


HIDDEN = """hidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
COUNT = """
window.heard = 0;
document.body.addEventListener("vigil:event", () => { window.heard += 1; });
"""


def test_events_while_a_page_was_hidden_are_caught_up_without_shared_workers(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    window.page.add_init_script("delete globalThis.SharedWorker")
    page = window.open("/agents")
    page.evaluate(COUNT)
    page.evaluate(HIDDEN, True)
    installation.vigil.json("agent", "create", "Watch tin mines in Bolivia", "--name", "Tin")
    try:
        assert page.evaluate("window.heard") == 0
        page.evaluate(HIDDEN, False)
        _wait_for_value(page, "window.heard")
    finally:
        installation.vigil.vigil("agent", "delete", "Tin", "--yes")


def test_pages_whose_shared_worker_does_not_answer_open_their_streams(
    window: BrowserWindow,
) -> None:
    """It has crashed, or hangs."""
    window.page.add_init_script("""
      globalThis.SharedWorker = class { port = { postMessage() {}, close() {} }; };
      const { setInterval } = globalThis;
      globalThis.setInterval = (call, ms) => setInterval(call, ms / 100);
    """)
    window.open("/agents")
    assert window.page.locator('#live-state[data-state="live"]').count() == 1


def test_the_stream_of_another_user_is_refused(window: BrowserWindow) -> None:
    """Who has signed in since, in the same browser."""
    page = window.open("/agents")
    statuses = page.evaluate("""async () => {
      const open = async (user) => {
        const stop = new AbortController();
        const headers = { "Vigil-User": user };
        const answer = await fetch("/api/v1/events", { headers, signal: stop.signal });
        stop.abort();
        return answer.status;
      };
      return [await open(document.body.dataset.user), await open("other")];
    }""")
    assert statuses == [200, 403]
    window.expected.append("403")

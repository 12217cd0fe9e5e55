"""The frame of all pages: the palette, the list of keys, and the menu of a phone."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import AGENT, SharedInstallation
from tests.support.browser.browser_window import NARROW, WIDE, BrowserWindow

pytestmark = pytest.mark.browser


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
    health = page.get_by_role("link", name="Health")
    expect(health).to_be_hidden()
    menu.click()
    expect(menu).to_have_attribute("aria-expanded", "true")
    expect(health).to_be_visible()
    expect(page.locator("[data-theme-switch]").first).to_be_visible()
    window.screenshot("phone-menu")
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    health.click()
    page.wait_for_url("**/health-of-all")
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]  # a TypedDict of these two


PAGES = (
    "/agents",
    "/inbox",
    "/costs",
    "/events",
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
    # The page of events reads a stream of its own, of which few are open at once.
    live = [page for page in [window.page, *pages] if not page.url.endswith("/events")]
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
                page.wait_for_function("window.hasHeard", timeout=LOADED_MS)
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

"""What the web UI shows of the operation of an installation: outages of providers, and what is deleted when it is old."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from playwright.sync_api import Page, expect

from shared.enums import RetentionKind
from shared.provider_limits.state import ProviderState
from tests.browser.conftest import SharedInstallation
from tests.support.browser.browser_window import NARROW, BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAME = "the model server at http://127.0.0.1:9/v1"
PAGES = ("/agents", "/inbox", "/costs", "/operate", "/settings")
POLLED_MS = 15_000
"""The statement is read again every 10 s."""


@contextmanager
def outage(installation: SharedInstallation) -> Iterator[None]:
    """A provider that none of the services uses is unavailable."""
    now = time.time()
    state = ProviderState(
        unavailable_since=now - 120,
        failures=5,
        probe_at=now + 3600,
        error=f"no answer from {NAME}: connection refused",
    )
    with psycopg.connect(installation.vigil.running.database_url, autocommit=True) as connection:
        connection.execute(
            "insert into provider_limits (key, kind, name, version, state) values ('of-a-test', 'model', %s, 1, %s)",
            (NAME, json.dumps(state.as_json())),
        )
        try:
            yield
        finally:
            connection.execute("delete from provider_limits where key = 'of-a-test'")


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    width: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return width


def test_an_outage_is_shown_on_each_page_until_it_has_ended(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    with outage(installation):
        for path in PAGES:
            page = window.open(path)
            banner = page.locator("#outages .banner")
            expect(banner).to_have_count(1)
            expect(banner).to_contain_text(f"T{NAME[1:]} has been unavailable since")
            expect(banner).to_contain_text("connection refused")
        window.screenshot("outage")
        page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
        expect(banner).to_be_visible()
        assert overflow(page) <= 0
        sentence = banner.locator("span").first
        assert sentence.evaluate("each => each.scrollWidth <= each.clientWidth"), "it is cut off"
    expect(banner).to_have_count(0, timeout=POLLED_MS)


def test_an_outage_appears_on_an_open_page(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/agents")
    expect(page.locator("#outages .banner")).to_have_count(0)
    with outage(installation):
        page.reload()
        expect(page.locator("#outages .banner")).to_be_visible()
        page.get_by_role("link", name="Inbox").first.click()
        page.wait_for_url("**/inbox*")
        expect(page.locator("#outages .banner")).to_be_visible()


def test_health_shows_what_is_deleted_when_it_is_old(window: BrowserWindow) -> None:
    page = window.open("/operate")
    section = page.locator("#retention")
    section.scroll_into_view_if_needed()
    # One row for each kind, and one for what is kept.
    expect(section.locator("[data-retention]")).to_have_count(len(RetentionKind) + 1)
    transcripts = section.locator('[data-retention="transcripts"]')
    # The scheduler notes its limits at its first look, within a minute.
    expect(transcripts.locator('[data-label="Kept for"]')).to_have_text("30 days", timeout=90_000)
    assert section.locator(".grid").evaluate("each => each.scrollWidth <= each.clientWidth"), (
        "it is cut off"
    )
    window.screenshot("retention")
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    section.scroll_into_view_if_needed()
    expect(transcripts).to_be_visible()
    assert overflow(page) <= 0

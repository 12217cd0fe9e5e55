"""Dates and times on pages: the reader's time zone, 24 hours, one format in every locale."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser.browser_window import BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]

EXACT = re.compile(r"\d{1,2} [A-Z][a-z]{2} \d{4}, \d\d:\d\d:\d\d GMT\+8")
AGE = re.compile(r"now|\d+ (s|min|h|d) ago")


@pytest.fixture(params=["en-US", "de-DE"])
def far_window(
    request: pytest.FixtureRequest,
    installation: SharedInstallation,
    browser: Browser,
    cookies: Path,
) -> Iterator[BrowserWindow]:
    """The window of an owner in Singapore."""
    context = browser.new_context(
        storage_state=cookies, locale=request.param, timezone_id="Asia/Singapore"
    )
    window = BrowserWindow(context.new_page(), installation.base)
    yield window
    context.close()
    window.check()


def test_ages_and_exact_times_have_one_format(
    far_window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = far_window.open(f"/agents/{installation.agent_id}/iterations/1")
    started = page.locator("#iteration-head time")
    expect(started).to_have_text(AGE)
    expect(started).to_have_attribute("title", EXACT)
    page.get_by_role("link", name="Plan", exact=True).click()
    expect(page.locator("#details time")).to_have_text(
        re.compile(r"(\d{1,2} [A-Z][a-z]{2}, )?\d\d:\d\d")
    )


def test_the_end_of_a_budget_names_its_time_zone(
    far_window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = far_window.open(f"/costs?agent={installation.agent_id}")
    expect(page.locator(".tile", has_text="Left today")).to_contain_text(
        "Resets at 08:00 GMT+8 (midnight UTC)"
    )
    page.locator("[data-plot] .u-over").hover(position={"x": 300, "y": 50})
    expect(page.locator(".plot-tip p")).to_have_text(
        re.compile(r"[A-Z][a-z]{2},? \d{1,2} [A-Z][a-z]{2} \(UTC\)")
    )

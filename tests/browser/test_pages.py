"""Every page that stands by itself opens, for everybody who may, with nothing to complain of."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Known
from tests.support.browser.watched import Watched

pytestmark = pytest.mark.browser

OF_ALL = (
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
OF_AN_AGENT = (
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


@pytest.mark.parametrize("path", OF_ALL)
def test_a_page_opens(window: Watched, path: str) -> None:
    page = window.open(path)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    window.check_access()


@pytest.mark.parametrize("path", OF_AN_AGENT)
def test_a_page_of_an_agent_opens(window: Watched, known: Known, path: str) -> None:
    page = window.open(f"/agents/{known.agent_id}{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    if path == "/graph":
        # Without a graphics card the browser tells of every slow read of a picture.
        window.expected.append("GPU stall")
    window.check_access()

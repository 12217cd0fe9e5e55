"""What an owner should see: read in place, marked, and nobody else's."""

from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Known, Opener
from tests.support.browser import desk as desks
from tests.support.browser.desk import Desk
from tests.support.browser.watched import Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def desk(known: Known) -> Desk:
    url = known.vigil.running.database_url
    return desks.made(desks.furnish(url, UUID(known.agent_id), "Inbox desk"))


def test_the_inbox_is_read_in_place_and_marked(window: Watched, desk: Desk) -> None:
    page = window.open(f"/inbox?agent={desk.agent_id}")
    badge = page.locator(".rail .badge")
    unread = int(badge.inner_text().split()[0])
    advice = page.locator("details.item", has_text=desks.ADVICE).filter(has_text="HOLD")
    notice = page.locator("details.item", has_text="in doubt")
    expect(advice).to_have_attribute("data-unread", "")
    expect(notice.get_by_text("notice", exact=True)).to_be_visible()
    advice.locator("summary").click()
    expect(advice.get_by_text("wait for that")).to_be_visible()
    expect(advice).not_to_have_attribute("data-unread", "")
    expect(advice).to_have_attribute("open", "")
    window.shoot("inbox")
    advice.get_by_role("button", name="Mark as unread").click()
    expect(advice).to_have_attribute("data-unread", "")
    notice.locator("summary").click()
    expect(notice.get_by_role("link", name=desks.DOUBTED)).to_be_visible()
    expect(notice).not_to_have_attribute("data-unread", "")
    expect(badge).to_have_text(f"{unread - 1} unread")
    page.reload()
    expect(advice).to_have_attribute("data-unread", "")
    expect(notice).not_to_have_attribute("data-unread", "")
    page = window.open("/inbox")
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.get_by_text("All of it is read")).to_be_visible()
    expect(page.locator("[data-unread]")).to_have_count(0)
    expect(badge).to_have_count(0)
    window.open(f"/inbox?agent={desk.agent_id}")
    advice.locator("summary").click()
    advice.get_by_role("link", name="Why: open the advice").click()
    expect(page.get_by_role("heading", name=desks.ADVICE)).to_be_visible()


def test_what_comes_into_the_inbox_appears(window: Watched, known: Known) -> None:
    url = known.vigil.running.database_url
    desk = desks.made(desks.furnish(url, UUID(known.agent_id), "Livelier desk"))
    page = window.open(f"/inbox?agent={desk.agent_id}")
    items = page.locator("details.item")
    items.first.locator("summary").click()
    before = items.count()
    desks.made(desks.advise(url, desk, "Wait for Orran"))
    page.evaluate("document.body.dispatchEvent(new CustomEvent('advice.produced'))")
    expect(items).to_have_count(before + 1)
    expect(items.first).to_contain_text("Wait for Orran")
    # What was being read is still open.
    expect(items.nth(1)).to_have_attribute("open", "")


def test_nobody_else_sees_any_of_it(another: Opener, known: Known, desk: Desk) -> None:
    made = known.vigil.vigil("user", "add", "stranger")
    assert made.returncode == 0, made.stderr
    stranger = another()
    stranger.page.goto(known.link("stranger"))
    stranger.page.get_by_role("button", name="Sign in").click()
    stranger.page.wait_for_url("**/agents")
    stranger.expected.append("404")
    for path in (
        "conclusions",
        f"conclusions/{desk.advice_id}",
        f"conclusions/{desk.advice_id}/chain",
        "conversation",
    ):
        page = stranger.open(f"/agents/{desk.agent_id}/{path}")
        expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
    page = stranger.open("/inbox")
    expect(page.get_by_role("heading", name="The inbox is empty")).to_be_visible()
    stranger.shoot("inbox-empty")

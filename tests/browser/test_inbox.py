"""The inbox of an owner: reading, marking as read, and access."""

from uuid import UUID

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SharedInstallation, WindowFactory
from tests.support.browser import agent_data
from tests.support.browser.agent_data import AgentWithAdvice
from tests.support.browser.browser_window import BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def agent(installation: SharedInstallation) -> AgentWithAdvice:
    url = installation.vigil.running.database_url
    return agent_data.run_in_thread(
        agent_data.create_agent(url, UUID(installation.agent_id), "Inbox desk")
    )


def test_the_inbox_is_read_in_place_and_marked(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/inbox?agent={agent.agent_id}")
    badge = page.locator(".rail .badge")
    unread = int(badge.inner_text().split()[0])
    advice = page.locator("details.item", has_text=agent_data.ADVICE).filter(has_text="HOLD")
    notice = page.locator("details.item", has_text="in doubt")
    expect(advice).to_have_attribute("data-unread", "")
    expect(notice.get_by_text("notice", exact=True)).to_be_visible()
    advice.locator("summary").click()
    expect(advice.get_by_text("wait for that")).to_be_visible()
    expect(advice).not_to_have_attribute("data-unread", "")
    expect(advice).to_have_attribute("open", "")
    window.screenshot("inbox")
    advice.get_by_role("button", name="Mark as unread").click()
    expect(advice).to_have_attribute("data-unread", "")
    notice.locator("summary").click()
    expect(notice.get_by_role("link", name=agent_data.DOUBTED)).to_be_visible()
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
    window.open(f"/inbox?agent={agent.agent_id}")
    advice.locator("summary").click()
    advice.get_by_role("link", name="Why: open the advice").click()
    expect(page.get_by_role("heading", name=agent_data.ADVICE)).to_be_visible()


def test_new_inbox_items_appear(window: BrowserWindow, installation: SharedInstallation) -> None:
    url = installation.vigil.running.database_url
    new_agent = agent_data.run_in_thread(
        agent_data.create_agent(url, UUID(installation.agent_id), "Livelier desk")
    )
    page = window.open(f"/inbox?agent={new_agent.agent_id}")
    items = page.locator("details.item")
    items.first.locator("summary").click()
    item_count = items.count()
    agent_data.run_in_thread(agent_data.add_advice(url, new_agent, "Wait for Orran"))
    page.evaluate("document.body.dispatchEvent(new CustomEvent('advice.produced'))")
    expect(items).to_have_count(item_count + 1)
    expect(items.first).to_contain_text("Wait for Orran")
    # The open item stays open.
    expect(items.nth(1)).to_have_attribute("open", "")


def test_other_users_see_neither_the_conclusions_nor_the_inbox(
    open_window: WindowFactory, installation: SharedInstallation, agent: AgentWithAdvice
) -> None:
    result = installation.vigil.vigil("user", "add", "stranger")
    assert result.returncode == 0, result.stderr
    stranger = open_window()
    stranger.page.goto(installation.link("stranger"))
    stranger.page.get_by_role("button", name="Sign in").click()
    stranger.page.wait_for_url("**/agents")
    stranger.expected.append("404")
    for path in (
        "conclusions",
        f"conclusions/{agent.advice_id}",
        f"conclusions/{agent.advice_id}/chain",
        "conversation",
    ):
        page = stranger.open(f"/agents/{agent.agent_id}/{path}")
        expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
    page = stranger.open("/inbox")
    expect(page.get_by_role("heading", name="The inbox is empty")).to_be_visible()
    stranger.screenshot("inbox-empty")

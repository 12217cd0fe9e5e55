"""The inbox of an owner: triage by mouse and keyboard, feedback, snoozing, and access."""

import re
from uuid import UUID

import pytest
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import func, update

from shared.database.tables import InboxItem
from tests.browser.conftest import SharedInstallation
from tests.support.browser import agent_data
from tests.support.browser.agent_data import AgentWithAdvice
from tests.support.browser.browser_window import NARROW, BrowserWindow, confirm_dialog

pytestmark = [pytest.mark.browser, pytest.mark.slow]

REASON = "We hold no shares <b>at all</b>"


def create_agent(installation: SharedInstallation, name: str) -> AgentWithAdvice:
    url = installation.vigil.running.database_url
    return agent_data.run_in_thread(agent_data.create_agent(url, UUID(installation.agent_id), name))


@pytest.fixture(scope="module")
def agent(installation: SharedInstallation) -> AgentWithAdvice:
    return create_agent(installation, "Inbox desk")


def rows(page: Page) -> Locator:
    return page.locator(".inbox .row")


def test_the_inbox_is_read_beside_the_list_and_marked(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/inbox?agent={agent.agent_id}")
    badge = page.locator(".rail [data-key=i] .badge")
    # The counts are those of the list below them.
    open_count, unread_count = (
        page.locator("[data-count=open]"),
        page.locator("[data-count=unread]"),
    )
    expect(rows(page)).to_have_count(2)
    expect(open_count).to_have_text("2")
    expect(unread_count).to_have_text("2")
    unread = int(badge.inner_text().split()[0])
    advice = rows(page).filter(has_text="HOLD")
    notice = rows(page).filter(has_text="notice")
    expect(advice).to_have_attribute("data-unread", "")
    expect(advice.get_by_role("img", name="in doubt")).to_be_visible()
    advice.click()
    item = page.locator("#item")
    expect(item.get_by_role("heading", name=agent_data.ADVICE)).to_be_visible()
    expect(item.get_by_text("wait for that")).to_be_visible()
    expect(item.locator("#doubts")).to_contain_text("rumours.example was retracted")
    expect(item.locator("#proof")).to_contain_text("4 sentences found")
    expect(item.locator("#proof blockquote mark").first).to_be_visible()
    expect(item.locator("#proof a.to-page").first).to_have_attribute(
        "href", re.compile(r"/sources/[0-9a-f-]+\?quote=")
    )
    # What speaks against it stands before what one decides, and accepting it is not suggested.
    doubts, accept = item.locator("#doubts"), item.get_by_role("button", name="Accept")
    assert doubts.bounding_box()["y"] < accept.bounding_box()["y"]  # type: ignore[index]  # both are visible
    assert "main" not in (accept.get_attribute("class") or "")
    expect(item.locator("#proof .seal-counts li").first).to_contain_text("In doubt")
    expect(advice).not_to_have_attribute("data-unread", "")
    expect(unread_count).to_have_text("1")
    expect(badge).to_have_text(f"{unread - 1} unread")
    expect(advice).to_have_attribute("aria-current", "true")
    expect(page).to_have_url(re.compile("item="))
    window.screenshot("inbox")
    item.get_by_role("button", name="Mark as unread").click()
    expect(advice).to_have_attribute("data-unread", "")
    notice.click()
    expect(item.get_by_title(agent_data.DOUBTED)).to_be_visible()
    expect(notice).not_to_have_attribute("data-unread", "")
    expect(item.get_by_role("button", name="Accept")).to_have_count(0)
    expect(badge).to_have_text(f"{unread - 1} unread")
    page.reload()
    expect(item.get_by_title(agent_data.DOUBTED)).to_be_visible()
    expect(advice).to_have_attribute("data-unread", "")
    expect(notice).not_to_have_attribute("data-unread", "")
    page = window.open("/inbox?view=unread")
    page.get_by_role("button", name="Mark all as read").click()
    expect(page.get_by_role("heading", name="No unread items")).to_be_visible()
    expect(page.locator("[data-unread]")).to_have_count(0)
    expect(badge).to_have_count(0)
    window.open(f"/inbox?agent={agent.agent_id}")
    advice.click()
    item.get_by_role("link", name="Open the advice").click()
    expect(page.get_by_role("heading", name=agent_data.ADVICE)).to_be_visible()


def test_items_are_triaged_by_keyboard(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    url = installation.vigil.running.database_url
    new_agent = create_agent(installation, "Keyboard desk")
    names = [f"Wait for {letter}" for letter in ("Alder", "Birch", "Cedar")]
    for name in names:
        agent_data.run_in_thread(agent_data.add_advice(url, new_agent, name))
    page = window.open(f"/inbox?agent={new_agent.agent_id}")
    heading = page.locator("#item-title")
    page.keyboard.press("?")
    expect(page.get_by_text("next and previous item")).to_be_visible()
    page.keyboard.press("Escape")
    for key, name in (("j", names[2]), ("ArrowDown", names[1]), ("k", names[2]), ("j", names[1])):
        page.keyboard.press(key)
        expect(heading).to_have_text(name)
        expect(page.locator(".row[aria-current]")).to_contain_text(name)
    expect(page.locator(".row[data-unread]").filter(has_text=names[1])).to_have_count(0)
    page.keyboard.press("u")
    expect(page.locator(".row[data-unread]").filter(has_text=names[1])).to_have_count(1)
    page.keyboard.press("e")
    expect(page.locator(".row[data-unread]").filter(has_text=names[1])).to_have_count(0)
    # A decision shows the next item.
    page.keyboard.press("a")
    expect(heading).to_have_text(names[0])
    expect(rows(page).filter(has_text=names[1])).to_have_count(0)
    expect(page.locator("#inbox-said")).to_contain_text(f"Accepted: {names[1]}")
    page.keyboard.press("k")
    expect(heading).to_have_text(names[2])
    page.keyboard.press("d")
    expect(heading).to_have_text(names[0])
    page.get_by_role("button", name="Undo").click()
    expect(rows(page).filter(has_text=names[2])).to_have_count(1)
    page.keyboard.press("f")
    expect(page.get_by_label("Reason or preference")).to_be_focused()
    page.keyboard.type("adu")
    expect(heading).to_have_text(names[0])
    page.get_by_label("Reason or preference").blur()
    page.keyboard.press("s")
    page.keyboard.press("Enter")
    expect(rows(page).filter(has_text=names[0])).to_have_count(0)
    page.goto(page.url.split("?")[0] + f"?view=done&agent={new_agent.agent_id}")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("accepted")
    page.keyboard.press("j")
    expect(heading).to_have_text(names[1])
    page.keyboard.press("Enter")
    expect(page.locator(".conclusion-title")).to_have_text(names[1])


def test_a_decision_on_the_last_item_can_be_undone(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    new_agent = create_agent(installation, "Last desk")
    page = window.open(f"/inbox?agent={new_agent.agent_id}")
    page.evaluate("window.stayed = true")
    expect(rows(page)).to_have_count(2)
    rows(page).first.click()
    for left in (1, 0):
        dismissed = page.locator("#item-title").inner_text()
        page.get_by_role("button", name="Dismiss").click()
        expect(rows(page)).to_have_count(left)
        expect(page.locator("#item-title", has_text=dismissed)).to_have_count(0)
    expect(page.get_by_role("heading", name="Select an item")).to_be_visible()
    assert "item=" not in page.url
    expect(page.locator("#inbox-said")).to_contain_text(f"Dismissed: {dismissed}")
    page.get_by_role("button", name="Undo").click()
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text(dismissed)
    assert page.evaluate("window.stayed"), "the page was loaded again"


def test_a_snoozed_item_returns_as_unread(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    url = installation.vigil.running.database_url
    new_agent = create_agent(installation, "Snoozing desk")
    page = window.open(f"/inbox?agent={new_agent.agent_id}")
    advice = rows(page).filter(has_text="HOLD")
    advice.click()
    page.locator("#snooze summary").click()
    window.screenshot("inbox-snooze-menu")
    page.get_by_role("button", name="Next week").click()
    expect(advice).to_have_count(0)
    page = window.open(f"/inbox?view=snoozed&agent={new_agent.agent_id}")
    expect(advice).to_have_count(1)
    expect(page.locator("[data-count=snoozed]")).to_have_text("1")
    expect(advice).not_to_have_attribute("data-unread", "")
    advice.click()
    expect(page.locator("#item-state")).to_contain_text("It returns to the inbox")
    window.screenshot("inbox-snoozed")
    agent_data.run_in_thread(_end_snooze(url, new_agent))
    page = window.open(f"/inbox?view=unread&agent={new_agent.agent_id}")
    expect(advice).to_have_attribute("data-unread", "")
    # It stands at the time of its return.
    expect(rows(page).first).to_contain_text(agent_data.ADVICE)


async def _end_snooze(url: str, agent: AgentWithAdvice) -> None:
    async with agent_data.open_database(url) as database, database.transaction() as session:
        await session.execute(
            update(InboxItem)
            .where(InboxItem.node_id == agent.advice_id)
            .values(snoozed_until=func.clock_timestamp())
        )


def test_feedback_is_stored_and_shown_again(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    new_agent = create_agent(installation, "Feedback desk")
    page = window.open(f"/inbox?agent={new_agent.agent_id}")
    rows(page).filter(has_text="HOLD").click()
    form = page.locator("#feedback")
    form.get_by_label("Not useful").check()
    form.get_by_label("Reason or preference").fill(REASON)
    form.get_by_role("button", name="Save feedback").click()
    expect(form.get_by_text("sees it from its next iteration")).to_be_visible()
    window.screenshot("inbox-feedback")
    page.reload()
    expect(form.get_by_label("Not useful")).to_be_checked()
    expect(form.get_by_label("Reason or preference")).to_have_value(REASON)
    # A text that is too long is refused beside its field, and kept.
    form.get_by_label("Reason or preference").evaluate(
        "(field) => field.removeAttribute('maxlength')"
    )
    form.get_by_label("Reason or preference").fill("x" * 501)
    form.get_by_role("button", name="Save feedback").click()
    expect(form.locator("#feedback-error")).to_contain_text("at most 500")
    expect(form.get_by_label("Reason or preference")).to_have_value("x" * 501)


def test_on_a_phone_the_item_takes_the_place_of_the_list(
    window: BrowserWindow, agent: AgentWithAdvice
) -> None:
    window.page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    page = window.open(f"/inbox?view=all&agent={agent.agent_id}")
    expect(page.locator("#item")).to_be_hidden()
    rows(page).filter(has_text="HOLD").click()
    expect(page.locator("#item-title")).to_be_visible()
    expect(page.locator("#inbox")).to_be_hidden()
    page.locator("[data-back]").click()
    expect(page.locator("#inbox")).to_be_visible()
    expect(page.locator("#item")).to_be_hidden()


def test_the_notice_of_a_doubt_is_resolved_when_the_page_is_restored(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    new_agent = create_agent(installation, "Restoring desk")
    page = window.open(f"/agents/{new_agent.agent_id}/sources?state=retracted")
    page.locator(".page-link").click()
    page.get_by_role("button", name="Restore").click()
    confirm_dialog(page)
    # When the restoration is done.
    expect(page.locator("#belief p[role=status]")).to_have_count(0)
    page = window.open(f"/inbox?agent={new_agent.agent_id}")
    expect(rows(page).filter(has_text="HOLD")).to_have_count(1)
    expect(rows(page).filter(has_text="notice")).to_have_count(0)
    page = window.open(f"/inbox?view=done&agent={new_agent.agent_id}")
    notice = rows(page).filter(has_text="notice")
    expect(notice).to_contain_text("resolved")
    expect(notice).not_to_have_attribute("data-unread", "")
    notice.click()
    expect(page.locator("#resolved")).to_contain_text("no longer applies")


def test_new_inbox_items_appear(window: BrowserWindow, installation: SharedInstallation) -> None:
    url = installation.vigil.running.database_url
    new_agent = create_agent(installation, "Livelier desk")
    page = window.open(f"/inbox?agent={new_agent.agent_id}")
    items = rows(page)
    items.first.click()
    chosen = page.locator("#item-title").inner_text()
    item_count = items.count()
    agent_data.run_in_thread(agent_data.add_advice(url, new_agent, "Wait for Orran"))
    page.evaluate("document.body.dispatchEvent(new CustomEvent('advice.produced'))")
    expect(items).to_have_count(item_count + 1)
    expect(items.first).to_contain_text("Wait for Orran")
    # The chosen item stays.
    expect(items.nth(1)).to_have_attribute("aria-current", "true")
    expect(page.locator("#item-title")).to_have_text(chosen)

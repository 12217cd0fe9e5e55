"""Talking with an agent."""

from uuid import UUID

import pytest
from playwright.sync_api import expect

from shared.agents.conversations import MAX_OPEN_TURNS
from tests.browser.conftest import Known
from tests.support.browser import desk as desks
from tests.support.browser import said
from tests.support.browser.desk import Desk
from tests.support.browser.watched import Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def desk(known: Known) -> Desk:
    url = known.vigil.running.database_url
    return desks.made(desks.furnish(url, UUID(known.agent_id), "Talking desk"))


@pytest.fixture(scope="module")
def talkative(known: Known) -> Desk:
    """With which much was said, and not all of it went well."""
    url = known.vigil.running.database_url
    made = desks.made(desks.furnish(url, UUID(known.agent_id), "Talkative desk"))
    desks.made(said.talk(url, made.agent_id))
    return made


def test_a_question_too_many_is_refused_and_kept(window: Watched, known: Known) -> None:
    url = known.vigil.running.database_url
    busy = desks.made(desks.furnish(url, UUID(known.agent_id), "Busy desk"))
    desks.made(said.begin_answer(url, busy.agent_id, "First?"))
    desks.made(said.ask_often(url, busy.agent_id, MAX_OPEN_TURNS - 1))
    window.expected.append("409")
    page = window.open(f"/agents/{busy.agent_id}/conversation")
    expect(page.locator(".progress").last).to_contain_text("Waits for the answers before")
    page.get_by_label(f"Say something to {busy.name}").fill("One more?")
    page.get_by_role("button", name="Send").click()
    told = f"{MAX_OPEN_TURNS} messages wait for their answers already: wait for some of them."
    expect(page.locator("#refused")).to_have_text(told)
    expect(page.get_by_label(f"Say something to {busy.name}")).to_have_value("One more?")
    page.evaluate("scrollTo(0, 0)")
    window.shoot("conversation-refused")


def test_an_answer_survives_a_reload_in_its_middle(window: Watched, known: Known) -> None:
    url = known.vigil.running.database_url
    slow = desks.made(desks.furnish(url, UUID(known.agent_id), "Slow desk"))
    answer_id = desks.made(said.begin_answer(url, slow.agent_id, "What is so?"))
    page = window.open(f"/agents/{slow.agent_id}/conversation")
    answer = page.locator(f"#message-{answer_id}")
    expect(answer.locator(".progress")).to_be_visible()
    desks.made(said.write_answer(url, answer_id, "So it is 🔋 with "))
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with ")
    page.reload()
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with ")
    whole = f"So it is 🔋 with *Halden* [node:{slow.halden_id}]."
    desks.made(said.write_answer(url, answer_id, f"{whole[:-9]}"))
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with *Halden* ")
    window.shoot("conversation-writing")
    desks.made(said.end_answer(url, slow, answer_id, whole))
    expect(answer.locator(".words.rich em")).to_have_text("Halden")
    expect(answer.locator("a.cite")).to_have_text("Halden Energy")
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with Halden Halden Energy.")


def test_a_question_is_answered_where_it_was_asked(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conversation")
    before = page.locator(".said[data-kind=answer]").count()
    field = page.get_by_label(f"Say something to {desk.name}")
    field.fill("What do you know of Halden Energy")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("and of lithium hydroxide?")
    page.keyboard.press("Enter")
    expect(field).to_have_value("")
    question = page.locator(".said[data-kind=question]").last
    expect(question).to_contain_text("and of lithium hydroxide?")
    answer = page.locator(".said[data-kind=answer]").last
    expect(answer.locator(".words.rich")).to_contain_text("sandbox reader", timeout=30_000)
    expect(answer).to_have_attribute("data-status", "complete")
    expect(answer.locator(".looks li").first).to_contain_text("Looked into the graph")
    expect(page.locator(".said[data-kind=answer]")).to_have_count(before + 1)
    cited = answer.locator("a.cite", has_text="Halden Energy").first
    expect(cited).to_have_attribute("href", f"/agents/{desk.agent_id}/nodes/{desk.halden_id}")
    page.evaluate("scrollTo(0, 0)")
    window.shoot("conversation")


def test_what_is_said_elsewhere_appears(window: Watched, known: Known, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conversation")
    asked = "What do you know of Orran Mining?"
    known.vigil.json("chat", desk.name, asked)
    expect(page.locator(".said[data-kind=question]", has_text=asked)).to_have_count(1)
    answer = page.locator(".said[data-kind=answer]").last
    expect(answer.locator(".words.rich")).to_contain_text("Orran Mining sells")


def test_a_long_conversation_is_paged_upwards(window: Watched, talkative: Desk) -> None:
    page = window.open(f"/agents/{talkative.agent_id}/conversation")
    messages = page.locator(".said")
    newest = messages.last.get_attribute("id")
    shown = messages.count()
    page.get_by_role("link", name="Earlier messages").click()
    expect(page.get_by_text("Question 1", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Earlier messages")).to_have_count(0)
    assert messages.count() > shown
    assert messages.last.get_attribute("id") == newest
    numbers = page.locator(
        ".said[data-kind=question] .words", has_text="Question"
    ).all_inner_texts()
    assert numbers == [f"Question {number}" for number in range(1, said.QUESTIONS + 1)]


def test_what_an_answer_was_made_to_say_does_nothing(window: Watched, talkative: Desk) -> None:
    page = window.open(f"/agents/{talkative.agent_id}/conversation")
    answer = page.locator(".said[data-kind=answer]", has_text="onerror")
    expect(answer).to_be_visible()
    expect(answer.locator(".cite[data-missing]")).to_contain_text("not in the graph")
    desks.is_harmless(page)


def test_a_failed_answer_is_told_and_asked_for_again(window: Watched, talkative: Desk) -> None:
    page = window.open(f"/agents/{talkative.agent_id}/conversation")
    failed = page.locator(".said[data-status=failed]")
    expect(failed).to_contain_text(said.WHY_FAILED)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    window.shoot("conversation-failed")
    failed.get_by_role("button", name="Ask again").click()
    answer = page.locator(".said[data-kind=answer]").last
    expect(answer).to_have_attribute("data-status", "complete", timeout=30_000)
    expect(failed).to_have_count(0)


def test_memories_are_told_and_forgotten(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conversation")
    page.get_by_text("Tell it something to remember").click()
    page.get_by_label("In words").fill("Watch <b>sodium</b> cells too")
    page.get_by_role("button", name="Remember").click()
    kept = page.locator(".memories li", has_text="Watch <b>sodium</b> cells too")
    expect(kept).to_be_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    kept.get_by_role("button", name="Forget").click()
    expect(kept).to_have_count(0)

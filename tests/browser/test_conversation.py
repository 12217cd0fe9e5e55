"""Conversations with an agent."""

from uuid import UUID

import pytest
from playwright.sync_api import expect

from shared.agents.conversations import MAX_OPEN_TURNS
from tests.browser.conftest import SharedInstallation
from tests.support.browser import agent_data, conversations
from tests.support.browser.agent_data import AgentWithAdvice
from tests.support.browser.browser_window import NARROW, BrowserWindow, answer_dialog

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def agent(installation: SharedInstallation) -> AgentWithAdvice:
    url = installation.vigil.running.database_url
    return agent_data.run_in_thread(
        agent_data.create_agent(url, UUID(installation.agent_id), "Talking desk")
    )


@pytest.fixture(scope="module")
def talkative_agent(installation: SharedInstallation) -> AgentWithAdvice:
    """An agent with a long conversation, hostile text and a failed answer."""
    url = installation.vigil.running.database_url
    new_agent = agent_data.run_in_thread(
        agent_data.create_agent(url, UUID(installation.agent_id), "Talkative desk")
    )
    agent_data.run_in_thread(conversations.add_conversation(url, new_agent.agent_id))
    return new_agent


def test_a_question_over_the_limit_is_rejected_and_stays_in_its_field(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    url = installation.vigil.running.database_url
    busy_agent = agent_data.run_in_thread(
        agent_data.create_agent(url, UUID(installation.agent_id), "Busy desk")
    )
    agent_data.run_in_thread(conversations.begin_answer(url, busy_agent.agent_id, "First?"))
    agent_data.run_in_thread(
        conversations.queue_questions(url, busy_agent.agent_id, MAX_OPEN_TURNS - 1)
    )
    window.expected.append("409")
    page = window.open(f"/agents/{busy_agent.agent_id}/conversation")
    expect(page.locator(".progress").last).to_contain_text("Waiting for earlier answers")
    page.get_by_label(f"Message to {busy_agent.name}").fill("One more?")
    page.get_by_role("button", name="Send").click()
    message = f"{MAX_OPEN_TURNS} messages are waiting for answers. Wait until some are answered, then send this one."
    expect(page.locator("#refused")).to_have_text(message)
    expect(page.get_by_label(f"Message to {busy_agent.name}")).to_have_value("One more?")
    page.evaluate("scrollTo(0, 0)")
    window.screenshot("conversation-refused")


def test_a_partial_answer_survives_a_reload(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    url = installation.vigil.running.database_url
    slow_agent = agent_data.run_in_thread(
        agent_data.create_agent(url, UUID(installation.agent_id), "Slow desk")
    )
    answer_id = agent_data.run_in_thread(
        conversations.begin_answer(url, slow_agent.agent_id, "What is so?")
    )
    page = window.open(f"/agents/{slow_agent.agent_id}/conversation")
    answer = page.locator(f"#message-{answer_id}")
    expect(answer.locator(".progress")).to_be_visible()
    agent_data.run_in_thread(conversations.write_answer(url, answer_id, "So it is 🔋 with "))
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with ")
    page.reload()
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with ")
    full_text = f"So it is 🔋 with *Halden* [node:{slow_agent.halden_id}]."
    agent_data.run_in_thread(conversations.write_answer(url, answer_id, f"{full_text[:-9]}"))
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with *Halden* ")
    window.screenshot("conversation-writing")
    agent_data.run_in_thread(conversations.end_answer(url, slow_agent, answer_id, full_text))
    expect(answer.locator(".words.rich em")).to_have_text("Halden")
    expect(answer.locator("a.cite")).to_have_attribute("title", "Thing Halden Energy")
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with Halden [1].")


def test_a_question_is_answered_on_the_page(window: BrowserWindow, agent: AgentWithAdvice) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conversation")
    answer_count = page.locator(".said[data-kind=answer]").count()
    field = page.get_by_label(f"Message to {agent.name}")
    field.fill("What do you know of Halden Energy")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("and of lithium hydroxide?")
    page.keyboard.press("Enter")
    expect(field).to_have_value("")
    question = page.locator(".said[data-kind=question]").last
    expect(question).to_contain_text("and of lithium hydroxide?")
    answer = page.locator(".said[data-kind=answer]").last
    expect(answer.locator(".words.rich")).to_contain_text("from the sandbox", timeout=30_000)
    expect(answer).to_have_attribute("data-status", "complete")
    looks = answer.locator(".looks")
    expect(looks.locator("summary")).to_contain_text("lookup")
    expect(looks.locator("li").first).to_be_hidden()
    looks.locator("summary").click()
    expect(looks.locator("li").first).to_contain_text("Searched the graph")
    expect(page.locator(".said[data-kind=answer]")).to_have_count(answer_count + 1)
    citation = answer.get_by_title("Halden Energy").first
    expect(citation).to_have_attribute("href", f"/agents/{agent.agent_id}/nodes/{agent.halden_id}")
    page.evaluate("scrollTo(0, 0)")
    window.screenshot("conversation")


def test_messages_sent_elsewhere_appear(
    window: BrowserWindow, installation: SharedInstallation, agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conversation")
    question = "What do you know of Orran Mining?"
    installation.vigil.json("chat", agent.name, question)
    expect(page.locator(".said[data-kind=question]", has_text=question)).to_have_count(1)
    answer = page.locator(".said[data-kind=answer]").last
    expect(answer.locator(".words.rich")).to_contain_text("Orran Mining — sells")


def test_a_long_conversation_is_paged_upwards(
    window: BrowserWindow, talkative_agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{talkative_agent.agent_id}/conversation")
    messages = page.locator(".said")
    newest_id = messages.last.get_attribute("id")
    initial_count = messages.count()
    page.get_by_role("link", name="Earlier messages").click()
    expect(page.get_by_text("Question 1", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Earlier messages")).to_have_count(0)
    assert messages.count() > initial_count
    assert messages.last.get_attribute("id") == newest_id
    numbers = page.locator(
        ".said[data-kind=question] .words", has_text="Question"
    ).all_inner_texts()
    assert numbers == [
        f"Question {number}" for number in range(1, conversations.QUESTION_COUNT + 1)
    ]


def test_hostile_text_in_an_answer_has_no_effect(
    window: BrowserWindow, talkative_agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{talkative_agent.agent_id}/conversation")
    answer = page.locator(".said[data-kind=answer]", has_text="onerror")
    expect(answer).to_be_visible()
    expect(answer.locator(".cite[data-missing]")).to_contain_text("not in the graph")
    agent_data.check_no_injection(page)


def test_a_failed_answer_is_shown_and_can_be_requested_again(
    window: BrowserWindow, talkative_agent: AgentWithAdvice
) -> None:
    page = window.open(f"/agents/{talkative_agent.agent_id}/conversation")
    failed_answer = page.locator(".said[data-status=failed]")
    expect(failed_answer).to_contain_text("No answer. The model server refused it.")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    window.screenshot("conversation-failed")
    failed_answer.get_by_role("button", name="Retry").click()
    answer = page.locator(".said[data-kind=answer]").last
    expect(answer).to_have_attribute("data-status", "complete", timeout=30_000)
    expect(failed_answer).to_have_count(0)


def test_memories_are_added_and_deleted(window: BrowserWindow, agent: AgentWithAdvice) -> None:
    page = window.open(f"/agents/{agent.agent_id}/conversation")
    page.get_by_text("Add a memory").click()
    window.expected.append("422")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("#content-error")).to_have_text("Enter the text.")
    page.get_by_label("Text", exact=True).fill("Watch <b>sodium</b> cells too")
    page.get_by_role("button", name="Add", exact=True).click()
    memory = page.locator(".memories li", has_text="Watch <b>sodium</b> cells too")
    expect(memory).to_be_visible()
    memory.get_by_role("button", name="Delete memory").click()
    answer_dialog(page, "Delete")
    expect(memory).to_have_count(0)


def test_an_empty_conversation_suggests_questions(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    url = installation.vigil.running.database_url
    new_agent = agent_data.run_in_thread(
        agent_data.create_agent(url, UUID(installation.agent_id), "Unasked desk")
    )
    page = window.open(f"/agents/{new_agent.agent_id}/conversation")
    suggestions = page.locator("#suggestions button")
    expect(suggestions.first).to_be_visible()
    window.screenshot("conversation-empty")
    suggested = suggestions.first.inner_text()
    suggestions.first.click()
    expect(page.locator(".said[data-kind=question]")).to_contain_text(suggested)
    expect(page.locator("#nothing-said")).to_have_count(0)
    answer = page.locator(".said[data-kind=answer]").last
    expect(answer).to_have_attribute("data-status", "complete", timeout=30_000)


def test_the_conversation_works_on_a_phone(window: BrowserWindow, agent: AgentWithAdvice) -> None:
    page = window.page
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]  # a TypedDict of these two
    window.open(f"/agents/{agent.agent_id}/conversation")
    expect(page.get_by_label(f"Message to {agent.name}")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]
    expect(page.get_by_role("heading", name="Memories")).to_be_hidden()
    page.get_by_role("button", name="Memories").click()
    expect(page.get_by_role("heading", name="Memories")).to_be_visible()

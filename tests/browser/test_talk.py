"""What an agent says: its conclusions down to the pages, the inbox, and talking with it."""

import asyncio
import re
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from uuid import UUID

import pytest
from playwright.sync_api import Page, expect

from tests.browser import desk as desks
from tests.browser.conftest import Known, Opener
from tests.browser.desk import Desk
from tests.browser.watched import Watched

pytestmark = pytest.mark.browser

T = TypeVar("T")


@pytest.fixture(scope="module")
def desk(known: Known) -> Desk:
    url = known.vigil.running.database_url
    return _made(desks.furnish(url, UUID(known.agent_id), "Lithium desk"))


@pytest.fixture(scope="module")
def talkative(known: Known) -> Desk:
    """With which much was said, and not all of it went well."""
    url = known.vigil.running.database_url
    made = _made(desks.furnish(url, UUID(known.agent_id), "Talkative desk"))
    _made(desks.talk(url, made.agent_id))
    return made


def _made(making: Coroutine[Any, Any, T]) -> T:
    # In a thread of its own: Playwright keeps a loop in this one.
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(asyncio.run, making).result()


def test_advice_is_unfolded_down_to_the_sentence_in_its_page(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conclusions")
    expect(page.get_by_text("HOLD", exact=True)).to_be_visible()
    expect(page.get_by_label("Confidence")).to_have_attribute("value", "0.72")
    window.shoot("advice-all")
    page.get_by_role("link", name=desks.ADVICE).click()
    expect(page.get_by_text("Everything holds")).to_be_visible()
    expect(page.get_by_text("2 pages, 4 quotes, 5 nodes and 1 edge checked")).to_be_visible()
    chain = page.locator("#chain")
    expect(chain.locator("blockquote", has_text=desks.SENTENCE)).to_be_visible()
    source = chain.get_by_role("link", name=desks.PAGE)
    address = rf"/agents/{desk.agent_id}/sources/[0-9a-f-]+#quote-[0-9a-f-]+$"
    expect(source).to_have_attribute("href", re.compile(address))
    expect(chain.locator("a.leaving", has_text="press.example")).to_have_attribute(
        "rel", re.compile("noopener")
    )
    window.shoot("advice")


def test_links_of_a_chain_fold_and_show_their_hashes(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conclusions/{desk.advice_id}")
    quote = page.locator("#chain blockquote", has_text=desks.SENTENCE)
    expect(quote).to_be_visible()
    page.locator("#chain summary", has_text=desks.ANALYSIS).click()
    expect(quote).to_be_hidden()
    page.keyboard.press("Enter")
    expect(quote).to_be_visible()
    evidence = page.locator("#chain li[data-kind=evidence]", has_text=desks.SENTENCE)
    evidence.get_by_text("Hashes of the page").click()
    expect(evidence.get_by_text(re.compile("^[0-9a-f]{64}$")).last).to_be_visible()


def test_a_conclusion_is_verified_again_by_a_button(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conclusions/{desk.analysis_id}")
    expect(page.locator("#verify-command")).to_have_text(f"vigil verify {desk.analysis_id}")
    with page.expect_response(lambda answer: "/chain" in answer.url) as answered:
        page.get_by_text("Verify again").click()
    assert answered.value.ok
    expect(page.get_by_text("Everything holds")).to_be_visible()


def test_what_rests_on_a_retracted_page_is_told_to_be_in_doubt(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conclusions?kind=analyses")
    row = page.locator(".conclusion", has_text=desks.DOUBTED)
    expect(row.get_by_text("in doubt")).to_be_visible()
    window.shoot("analyses")
    row.get_by_role("link").click()
    expect(page.locator("#doubts")).to_contain_text("nobody confirms it")
    expect(page.get_by_text("1 break: this cannot be proved")).to_be_visible()
    expect(page.locator("#chain .fault").get_by_role("link", name="Kestrel Cells")).to_be_visible()
    expect(page.locator("#chain li[data-kind=evidence] .pill")).to_have_text("retracted")
    window.shoot("analysis-doubted")


def test_what_pages_had_a_model_write_does_nothing(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conclusions/{desk.hostile_id}")
    expect(page.get_by_text("Everything holds")).to_be_visible()
    text = page.locator(".rich")
    _is_harmless(page)
    expect(text.get_by_role("link", name="Halden Energy")).to_have_attribute(
        "href", f"/agents/{desk.agent_id}/nodes/{desk.halden_id}"
    )
    window.shoot("analysis-hostile")


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
    advice.locator("summary").click()
    advice.get_by_role("link", name="Why: open the advice").click()
    expect(page.get_by_role("heading", name=desks.ADVICE)).to_be_visible()


def test_an_answer_survives_a_reload_in_its_middle(window: Watched, known: Known) -> None:
    url = known.vigil.running.database_url
    slow = _made(desks.furnish(url, UUID(known.agent_id), "Slow desk"))
    answer_id = _made(desks.begin_answer(url, slow.agent_id, "What is so?"))
    page = window.open(f"/agents/{slow.agent_id}/conversation")
    answer = page.locator(f"#message-{answer_id}")
    expect(answer.locator(".progress")).to_be_visible()
    _made(desks.write_answer(url, answer_id, "So it is 🔋 with "))
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with ")
    page.reload()
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with ")
    whole = f"So it is 🔋 with *Halden* [node:{slow.halden_id}]."
    _made(desks.write_answer(url, answer_id, f"{whole[:-9]}"))
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with *Halden* ")
    window.shoot("conversation-writing")
    _made(desks.end_answer(url, slow, answer_id, whole))
    expect(answer.locator(".words.rich em")).to_have_text("Halden")
    expect(answer.locator("a.cite")).to_have_text("Halden Energy")
    expect(answer.locator(".words")).to_have_text("So it is 🔋 with Halden Halden Energy.")


def test_a_question_is_answered_where_it_was_asked(window: Watched, desk: Desk) -> None:
    page = window.open(f"/agents/{desk.agent_id}/conversation")
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
    expect(page.locator(".said[data-kind=answer]")).to_have_count(1)
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
    assert numbers == [f"Question {number}" for number in range(1, desks.QUESTIONS + 1)]


def test_what_an_answer_was_made_to_say_does_nothing(window: Watched, talkative: Desk) -> None:
    page = window.open(f"/agents/{talkative.agent_id}/conversation")
    answer = page.locator(".said[data-kind=answer]", has_text="onerror")
    expect(answer).to_be_visible()
    expect(answer.locator(".cite[data-missing]")).to_contain_text("not in the graph")
    _is_harmless(page)


def test_a_failed_answer_is_told_and_asked_for_again(window: Watched, talkative: Desk) -> None:
    page = window.open(f"/agents/{talkative.agent_id}/conversation")
    failed = page.locator(".said[data-status=failed]")
    expect(failed).to_contain_text(desks.WHY_FAILED)
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


def _is_harmless(page: Page) -> None:
    expect(page).not_to_have_title("taken")
    assert (
        page.locator("main script, main img, main [onerror], main [hx-get='/taken']").count() == 0
    )
    assert page.locator("a[href^='javascript']").count() == 0

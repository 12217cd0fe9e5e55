"""The bus, live in a page."""

import json

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import AGENT, Known
from tests.support.browser.watched import Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "<img src=x onerror=document.title='taken'>"
STREAM = "**/api/v1/events?*"


def rows_of(page: Page) -> list[str]:
    return page.locator("#events .events-name").all_inner_texts()


def told(page: Page, *frames: str) -> None:
    """The next stream of the page tells these, and the ones after it nothing."""
    left = ["\n\n".join(frames) + "\n\n"]

    def answer(route: Route) -> None:
        body = left.pop() if left else ": nothing\n\n"
        route.fulfill(body=body, headers={"content-type": "text/event-stream"})

    page.route(STREAM, answer)


def frame(number: int, event: str, **facts: object) -> str:
    facts = {"occurred_at": "2026-01-02T03:04:05Z", **facts}
    return f"id: {number}\nevent: {event}\ndata: {json.dumps(facts)}"


def test_what_was_and_what_comes_is_told_in_words(window: Watched, known: Known) -> None:
    page = window.open("/events?back=1d")
    ended = page.locator("#events li", has_text="iteration.completed").filter(has_text=AGENT).last
    expect(ended).to_contain_text("iteration 1: ")
    before = page.locator("#events li").count()
    known.vigil.json("agent", "create", "Watch cobalt", "--name", "Cobalt", "--interval", "1d")
    # Without a reload, on top; its name was not known yet when the page was made.
    expect(page.locator("#events li", has_text="configuration.completed").first).to_be_visible()
    expect(page.locator(".events-agent", has_text="Cobalt").nth(1)).to_be_visible()
    expect(page.locator("#events li").nth(before)).to_be_attached()
    window.shoot("events")
    ended.locator("summary").click()
    expect(ended.locator("pre")).to_contain_text('"event_id"')
    expect(ended.get_by_role("link", name="its agent")).to_have_attribute(
        "href", f"/agents/{known.agent_id}"
    )


def test_only_what_is_asked_for_is_followed(window: Watched, known: Known) -> None:
    page = window.open("/events?back=1d")
    page.get_by_label("Named").fill("query.*")
    page.get_by_label("Of", exact=True).select_option(AGENT)
    page.wait_for_url("**agent=*")
    expect(page.locator("#events li").first).to_be_visible()
    assert all(name.startswith("query.") for name in rows_of(page))
    assert set(page.locator("#events .events-agent").all_inner_texts()) == {AGENT}


def test_a_pattern_that_means_nothing_is_told_beside_its_field(window: Watched) -> None:
    page = window.open("/events?type=wind.*")
    expect(page.get_by_role("alert").first).to_contain_text("No event is named like 'wind.*'")
    expect(page.get_by_label("Named")).to_have_attribute("aria-invalid", "true")


def test_while_it_is_paused_events_are_held_back(window: Watched, known: Known) -> None:
    page = window.open("/events?back=now")
    page.get_by_role("button", name="Pause").click()
    known.vigil.json("agent", "create", "Watch who mines tin", "--name", "Tin", "--interval", "1d")
    expect(page.locator("#events-held")).to_contain_text("held back")
    expect(page.locator("#events li")).to_have_count(0)
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#events li").first).to_be_visible()
    expect(page.locator("#events-held")).to_be_empty()


def test_the_newest_five_hundred_are_kept(window: Watched, known: Known) -> None:
    told(
        window.page,
        *(
            frame(each, "query.completed", agent_id=known.agent_id, nodes=each, edges=0)
            for each in range(1, 621)
        ),
    )
    page = window.open("/events")
    expect(page.locator("#events-count")).to_contain_text("The newest 500 events")
    expect(page.locator("#events li")).to_have_count(500)
    expect(page.locator("#events li").first).to_contain_text("620 nodes")


def test_what_is_lost_is_told_and_nothing_that_is_told_runs(window: Watched, known: Known) -> None:
    gap = 'id: 9\nevent: gap\ndata: {"why": "expired", "first": 3, "last": 9}'
    query = {"objective": HOSTILE, "reasoning": HOSTILE}
    asked = frame(10, "query.requested", agent_id=known.agent_id, query=query)
    told(window.page, gap, asked, frame(11, "query.failed", agent_id=known.agent_id, error=HOSTILE))
    page = window.open("/events")
    expect(page.locator(".events-gap")).to_contain_text("7 events are no longer kept")
    row = page.locator("#events li", has_text="query.requested")
    expect(row).to_contain_text(HOSTILE)
    row.locator("summary").click()
    expect(row.locator("pre")).to_contain_text(HOSTILE)
    assert page.locator("#events img").count() == 0
    expect(page).to_have_title("Events – Vigil")
    window.shoot("events-gap")


def test_that_the_stream_is_away_is_told(window: Watched) -> None:
    window.expected.append("ERR_")
    page = window.open("/events")
    page.context.set_offline(True)
    expect(page.locator("#events-away")).to_contain_text("What is missed meanwhile comes after")
    window.shoot("events-away")
    page.context.set_offline(False)
    expect(page.locator("#events-away")).to_be_hidden()

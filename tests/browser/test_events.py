"""The live events on the page Operate."""

import json
import re
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import AGENT, SharedInstallation
from tests.support.browser.browser_window import BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "<img src=x onerror=document.title='taken'>"
STREAM = "**/api/v1/events?*"


def stub_stream(page: Page, *frames: str) -> None:
    """Answer the next event stream of the page with `frames`, and later streams with no events."""
    bodies = ["\n\n".join(frames) + "\n\n"]

    def respond(route: Route) -> None:
        body = bodies.pop() if bodies else ": nothing\n\n"
        route.fulfill(body=body, headers={"content-type": "text/event-stream"})

    # Requests of a shared worker cannot be answered here, so the page reads the stream itself.
    page.add_init_script("delete globalThis.SharedWorker")
    page.route(STREAM, respond)


def frame(number: int, event: str, /, **data: object) -> str:
    data = {"occurred_at": "2026-01-02T03:04:05Z", **data}
    return f"id: {number}\nevent: {event}\ndata: {json.dumps(data)}"


def test_past_and_new_events_are_described_in_words(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/operate")
    event = page.locator("#events li", has_text="iteration.completed").filter(has_text=AGENT).last
    expect(event).to_contain_text("Iteration 1 completed: ")
    expect(event.get_by_role("link", name="iteration 1")).to_have_attribute(
        "href", f"/agents/{installation.agent_id}/iterations/1"
    )
    # Of events that do not say the number, it is that of the iteration's start.
    query = page.locator("#events li", has_text="query.completed").filter(has_text=AGENT).last
    expect(query.get_by_role("link", name="iteration 1")).to_be_visible()
    event_count = page.locator("#events li").count()
    installation.vigil.json(
        "agent", "create", "Watch cobalt", "--name", "Cobalt", "--interval", "1d"
    )
    # Without a reload, at the top; the agent has no name here, since it was created after the page was loaded.
    expect(page.locator("#events li", has_text="configuration.completed").first).to_be_visible()
    expect(page.locator(".event-agent", has_text=re.compile("^agent ")).nth(1)).to_be_visible()
    expect(page.locator("#events li").nth(event_count)).to_be_attached()
    window.screenshot("events")
    details = event.get_by_role("button", name="Details of iteration.completed")
    details.click()
    expect(details).to_have_attribute("aria-expanded", "true")
    expect(event.locator("pre")).to_contain_text('"event_id"')
    window.screenshot("events-details")
    details.click()
    expect(event.locator("pre")).to_have_count(0)
    expect(event.get_by_role("link", name=AGENT)).to_have_attribute(
        "href", f"/agents/{installation.agent_id}"
    )


def test_only_the_newest_100_events_are_kept(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    stub_stream(
        window.page,
        *(
            frame(number, "query.completed", agent_id=installation.agent_id, nodes=number, edges=0)
            for number in range(1, 151)
        ),
    )
    page = window.open("/operate")
    expect(page.locator("#events li").first).to_contain_text("150 nodes")
    expect(page.locator("#events li")).to_have_count(100)


def test_a_gap_is_reported_and_hostile_events_have_no_effect(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    gap = 'id: 9\nevent: gap\ndata: {"why": "expired", "first": 3, "last": 9}'
    query = {"objective": HOSTILE, "reasoning": HOSTILE}
    request_frame = frame(10, "query.requested", agent_id=installation.agent_id, query=query)
    stub_stream(
        window.page,
        gap,
        request_frame,
        frame(11, "query.failed", agent_id=installation.agent_id, error=HOSTILE),
    )
    page = window.open("/operate")
    expect(page.locator(".event-gap")).to_contain_text("7 events are missing here")
    row = page.locator("#events li", has_text="query.requested")
    expect(row).to_contain_text(HOSTILE)
    row.get_by_role("button", name="Details").click()
    expect(row.locator("pre")).to_contain_text(HOSTILE)
    assert page.locator("#events img").count() == 0
    expect(page).to_have_title("Operate – Vigil")
    window.screenshot("events-gap")


def test_events_of_a_deleted_agent_have_no_links(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    deleted = str(uuid4())
    iteration = {"iteration_id": str(uuid4()), "number": 1}
    stub_stream(
        window.page,
        frame(1, "configuration.completed", agent_id=deleted),
        frame(2, "iteration.started", agent_id=deleted, why="due", **iteration),
        frame(3, "configuration.completed", agent_id=installation.agent_id),
    )
    page = window.open("/operate")
    rows = page.locator("#events .event")
    expect(rows.locator(".event-agent")).to_have_text(
        [AGENT, f"agent {deleted[:8]}", f"agent {deleted[:8]}"]
    )
    of_deleted = rows.filter(has_text=deleted[:8])
    expect(of_deleted.get_by_role("link")).to_have_count(0)
    expect(of_deleted.first).to_contain_text("Iteration 1 started")
    expect(rows.first.get_by_role("link", name="settings")).to_be_visible()


def test_a_lost_connection_is_reported(window: BrowserWindow) -> None:
    # The sections that are read again fail too.
    window.expected += ["ERR_", "Failed to fetch"]
    page = window.open("/operate")
    page.context.set_offline(True)
    expect(page.locator("#events-away")).to_contain_text("Missed events appear")
    window.screenshot("events-away")
    page.context.set_offline(False)
    expect(page.locator("#events-away")).to_be_hidden()

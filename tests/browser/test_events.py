"""The page of live events."""

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
EARLIER, LATER = "2024-01-02T03:04:05Z", "2024-01-02T03:09:05Z"


def list_event_names(page: Page) -> list[str]:
    return page.locator("#events .event-name").all_inner_texts()


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
    page = window.open("/events?back=1d")
    event = page.locator("#events li", has_text="iteration.completed").filter(has_text=AGENT).last
    expect(event).to_contain_text("Iteration 1 completed: ")
    expect(event.get_by_role("link", name="iteration 1")).to_have_attribute(
        "href", f"/agents/{installation.agent_id}/iterations/1"
    )
    # Of events that do not say the number, it is looked up.
    page.get_by_role("button", name="Fold iterations").click()
    query = page.locator("#events li", has_text="query.completed").filter(has_text=AGENT).last
    expect(query.get_by_role("link", name="iteration 1")).to_be_visible()
    event_count = page.locator("#events li").count()
    installation.vigil.json(
        "agent", "create", "Watch cobalt", "--name", "Cobalt", "--interval", "1d"
    )
    # Without a reload, at the top; the agent did not exist when the page was loaded.
    expect(page.locator("#events li", has_text="configuration.completed").first).to_be_visible()
    expect(page.locator(".event-agent", has_text="Cobalt").nth(1)).to_be_visible()
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


def test_only_matching_events_are_shown(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/events?back=1d")
    page.get_by_label("Kind").select_option("Queries")
    page.wait_for_url("**type=query.**")
    page.get_by_label("Agent", exact=True).select_option(AGENT)
    page.wait_for_url(f"**agent={installation.agent_id}**")
    expect(page.locator("#events li").first).to_be_visible()
    assert all(name.startswith("query.") for name in list_event_names(page))
    assert set(page.locator("#events .event-agent").all_inner_texts()) == {AGENT}


def test_an_invalid_pattern_is_reported_next_to_its_field(window: BrowserWindow) -> None:
    page = window.open("/events?type=wind.*")
    expect(page.get_by_role("alert").first).to_contain_text("No event matches 'wind.*'")
    expect(page.get_by_label("Kind")).to_have_attribute("aria-invalid", "true")


def test_events_are_held_back_while_paused(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/events?back=now")
    page.get_by_role("button", name="Pause").click()
    installation.vigil.json(
        "agent", "create", "Watch who mines tin", "--name", "Tin", "--interval", "1d"
    )
    expect(page.get_by_role("button", name="new event")).to_be_visible()
    expect(page.locator("#events li")).to_have_count(0)
    window.screenshot("events-paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#events li").first).to_be_visible()
    expect(page.locator("#events-fresh")).to_be_hidden()


def test_new_events_do_not_move_what_is_read_further_down(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/events?back=1d")
    # With every event, the list is longer than the window.
    page.get_by_role("button", name="Fold iterations").click()
    read = page.locator("#events li").last
    read.scroll_into_view_if_needed()
    expect(page.locator("#events-top")).not_to_be_in_viewport()
    event_count = page.locator("#events li").count()
    installation.vigil.json(
        "agent", "create", "Watch who mines zinc", "--name", "Zinc", "--interval", "1d"
    )
    show = page.get_by_role("button", name="new event")
    expect(show).to_be_visible()
    expect(page.locator("#events li")).to_have_count(event_count)
    show.click()
    expect(page.locator("#events-top")).to_be_in_viewport()
    expect(page.locator("#events li").nth(event_count)).to_be_attached()
    expect(page.locator(".event-agent", has_text="Zinc").first).to_be_visible()


def test_only_the_newest_500_events_are_kept(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    stub_stream(
        window.page,
        *(
            frame(number, "query.completed", agent_id=installation.agent_id, nodes=number, edges=0)
            for number in range(1, 621)
        ),
    )
    page = window.open("/events")
    expect(page.locator("#events-count")).to_contain_text("Newest 500 events")
    expect(page.locator("#events li")).to_have_count(500)
    expect(page.locator("#events li").first).to_contain_text("620 nodes")


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
    page = window.open("/events")
    expect(page.locator(".event-gap")).to_contain_text("7 events are missing here")
    row = page.locator("#events li", has_text="query.requested")
    expect(row).to_contain_text(HOSTILE)
    row.get_by_role("button", name="Details").click()
    expect(row.locator("pre")).to_contain_text(HOSTILE)
    assert page.locator("#events img").count() == 0
    expect(page).to_have_title("Events – Vigil")
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
    page = window.open("/events")
    rows = page.locator("#events .event")
    expect(rows.locator(".event-agent")).to_have_text([AGENT, "deleted agent", "deleted agent"])
    of_deleted = rows.filter(has_text="deleted agent")
    expect(of_deleted.get_by_role("link")).to_have_count(0)
    expect(of_deleted.first).to_contain_text("Iteration 1 started")
    expect(rows.first.get_by_role("link", name="settings")).to_be_visible()


def test_a_completed_iteration_is_one_row_until_it_is_unfolded(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    of = {"agent_id": installation.agent_id, "iteration_id": str(uuid4())}
    running = {"agent_id": installation.agent_id, "iteration_id": str(uuid4())}
    stub_stream(
        window.page,
        frame(1, "iteration.started", **of, number=7, why="due", occurred_at=EARLIER),
        frame(2, "query.completed", **of, nodes=3, edges=2, occurred_at=EARLIER),
        frame(3, "query.failed", **of, error="away", occurred_at=EARLIER),
        frame(4, "iteration.completed", **of, number=7, queries=2, occurred_at=LATER),
        frame(5, "iteration.started", **running, number=8, why="due", occurred_at=LATER),
    )
    page = window.open("/events")
    visible = page.locator("#events .event:visible .event-name")
    # A failure is never hidden, and neither is an iteration that still runs.
    expect(visible).to_have_text(["iteration.started", "iteration.completed", "query.failed"])
    axis = page.locator("#events-volume figcaption span")
    expect(axis).to_have_text(
        [
            re.compile("2 Jan 2024, .*:04:05"),
            "The highest bar is 3 events",
            re.compile("2 Jan 2024, .*:09:05"),
        ]
    )
    window.screenshot("events-folded")
    page.get_by_role("button", name="Show 2 more events").click()
    expect(visible).to_have_count(5)
    page.get_by_role("button", name="Hide 2 more events").click()
    expect(visible).to_have_count(3)
    page.get_by_role("button", name="Fold iterations").click()
    expect(visible).to_have_count(5)
    page.reload()
    expect(page.get_by_role("button", name="Fold iterations")).to_have_attribute(
        "aria-pressed", "false"
    )


def test_a_lost_connection_is_reported(window: BrowserWindow) -> None:
    window.expected.append("ERR_")
    page = window.open("/events")
    page.context.set_offline(True)
    expect(page.locator("#events-away")).to_contain_text("Missed events appear")
    window.screenshot("events-away")
    page.context.set_offline(False)
    expect(page.locator("#events-away")).to_be_hidden()

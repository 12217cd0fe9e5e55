"""The page of an agent: configuration, live iterations, pausing and access."""

import re

import psycopg
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser.agents import ITERATION_TIMEOUT_MS, create_agent, send_command
from tests.support.browser.browser_window import BrowserWindow

pytestmark = pytest.mark.browser

RECORD_STATES = """() => {
  window.stayed = true;
  window.seen = [];
  const look = () => {
    const flow = document.getElementById("flow");
    if (!flow) return;
    const heading = flow.querySelector("h2").textContent;
    const outcome = flow.querySelector(".flow-head .pill").textContent;
    const isPlanned = Boolean(flow.querySelector(".flow-plan"));
    window.seen.push([heading, outcome, flow.querySelectorAll(".step-card").length, isPlanned]);
  };
  new MutationObserver(look).observe(document.getElementById("now"), {subtree: true, childList: true, characterData: true});
}"""
"""Records each state that the page shows; a reload clears the record."""


def test_a_new_agent_is_configured_and_runs_without_a_reload(window: BrowserWindow) -> None:
    page = window.open("/agents/new")
    page.get_by_label("Mission").fill("Watch cobalt refiners and what they pay")
    page.get_by_role("button", name="Create agent").click()
    page.wait_for_url("**/agents/*-*")
    page.evaluate("() => { window.stayed = true; }")
    expect(page.get_by_text("Watch cobalt refiners and what they pay").first).to_be_visible()
    flow = page.get_by_role("region", name="Iteration 1")
    expect(flow.locator(".flow-head").get_by_text("completed")).to_be_visible(
        timeout=ITERATION_TIMEOUT_MS
    )
    assert page.evaluate("window.stayed"), "the page was loaded again"
    expect(page.locator("#agent-state")).to_have_text("watching")
    expect(page.locator("#agent-name")).not_to_be_empty()


def test_an_iteration_is_shown_live_from_plan_to_end(window: BrowserWindow) -> None:
    agent_id = create_agent(window, "Watch copper smelters and their ore contracts")
    page = window.open(f"/agents/{agent_id}")
    flow = page.locator("#flow")
    expect(flow.locator(".flow-head").get_by_text("completed")).to_be_visible(
        timeout=ITERATION_TIMEOUT_MS
    )
    page.evaluate(RECORD_STATES)
    send_command(page, agent_id, "run")
    iteration = page.get_by_role("region", name="Iteration 2")
    expect(iteration.locator(".flow-head").get_by_text("completed")).to_be_visible(
        timeout=ITERATION_TIMEOUT_MS
    )
    assert page.evaluate("window.stayed"), "the page was loaded again"
    states = page.evaluate("window.seen")
    running_states = [
        state for state in states if state[0] == "Iteration 2" and state[1] == "running"
    ]
    assert [state for state in running_states if state[2] > 1 and state[3]], (
        f"step_cards and plan came late: {states}"
    )
    expect(iteration.locator(".flow-plan")).to_contain_text("quer")
    step_cards = iteration.locator(".step-card")
    assert step_cards.count() >= 2
    for step_card in step_cards.all():
        expect(step_card.get_by_role("img", name="done")).to_be_visible()
    check_fits(iteration.locator(".flow-facts > div"))
    expect(iteration.locator(".bars li").first).to_contain_text("Plan")
    expect(iteration.locator(".stage-count").first).to_have_text(re.compile(r"(\d+) of \1"))
    learned = page.get_by_role("region", name="What changed")
    expect(learned).to_contain_text(re.compile("Since .*: iterations 1 to 2, "))
    window.screenshot("now")
    check_links(page, agent_id, window)


def check_fits(facts: Locator) -> None:
    """Check that the facts of an iteration are in one row."""
    tops = {box["y"] for fact in facts.all() if (box := fact.bounding_box()) is not None}
    assert len(tops) == 1


def check_links(page: Page, agent_id: str, window: BrowserWindow) -> None:
    """Check that each card, bar and fact opens what it stands for: a row of the iteration's waterfall."""
    place = f"/agents/{agent_id}/iterations/2?open="
    flow = page.locator("#flow")
    hrefs = {
        str(link.get_attribute("href"))
        for link in flow.locator(".step-card-top a, .bar-row, .flow-plan a").all()
    }
    assert hrefs, "there are no cards"
    assert all(href.startswith(f"{place}step-") for href in hrefs)
    expect(flow.locator(".flow-facts dd a")).to_have_count(6)
    bars = page.locator("#sidebar .spark a")
    assert [bar.get_attribute("href") for bar in bars.all()] == [
        f"/agents/{agent_id}/iterations/{number}" for number in (1, 2)
    ]
    flow.locator(".step-card").last.click()
    expect(page.locator("#details")).to_be_visible()
    key = page.url.split("open=")[1]
    expect(page.locator(f"#row-{key}")).to_have_attribute("aria-selected", "true")
    expect(page.locator(f"#row-{key}")).to_be_in_viewport()
    for href in hrefs:
        expect(page.locator(f"#row-{href.removeprefix(place)}")).to_have_count(1)
    window.open(f"/agents/{agent_id}")
    bars.first.click()
    expect(page.get_by_role("heading", name="Iteration 1", exact=True)).to_be_visible()


ADD_QUESTION = """
insert into investigation_requests
    (id, agent_id, iteration_id, iteration_number, step_id, objective, reasoning, search_hints)
select gen_random_uuid(), agent_id, iteration_id, 1, id, 'Where do they store it?', 'Not known', '[]'
from steps where agent_id = %s and iteration_id is not null order by kind limit 1
returning step_id
"""


def test_an_open_question_opens_the_step_that_asked_it(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    with psycopg.connect(installation.vigil.running.database_url) as connection:
        row = connection.execute(ADD_QUESTION, [installation.agent_id]).fetchone()
    assert row is not None
    page = window.open(f"/agents/{installation.agent_id}")
    page.get_by_role("link", name="Where do they store it?").click()
    expect(page.locator(f"#row-step-{row[0]}")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#details")).to_be_visible()
    with psycopg.connect(installation.vigil.running.database_url) as connection:
        connection.execute("delete from investigation_requests where step_id = %s", row)


def test_an_agent_is_paused_run_once_and_resumed(window: BrowserWindow) -> None:
    agent_id = create_agent(
        window, "Compare the energy supply and exports of West African economies"
    )
    page = window.open(f"/agents/{agent_id}")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ITERATION_TIMEOUT_MS)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("heading", name="Paused")).to_be_visible()
    expect(page.locator("#agent-state")).to_have_text("paused")
    window.screenshot("now-paused")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("heading", name="Iteration 2")).to_be_visible(
        timeout=ITERATION_TIMEOUT_MS
    )
    expect(outcome).to_have_text("completed", timeout=ITERATION_TIMEOUT_MS)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#agent-state")).to_have_text("watching")
    expect(page.get_by_role("heading", name="Next iteration")).to_be_visible()
    # Every page of the agent says what it does, without a reload.
    page = window.open(f"/agents/{agent_id}/sources")
    state = page.locator("#agent-state")
    expect(state).to_have_text("watching")
    page.evaluate("() => { window.stayed = true; }")
    send_command(page, agent_id, "run")
    expect(state).not_to_have_text("watching", timeout=ITERATION_TIMEOUT_MS)
    expect(state).to_have_text("watching", timeout=ITERATION_TIMEOUT_MS)
    assert page.evaluate("window.stayed"), "the page was loaded again"


def test_results_are_linked(window: BrowserWindow, installation: SharedInstallation) -> None:
    page = window.open(f"/agents/{installation.agent_id}")
    results = page.get_by_role("complementary", name="Results")
    expect(results.get_by_role("heading", name="Latest conclusions")).to_be_visible()
    expect(results.get_by_role("link", name="Today")).to_have_attribute(
        "href", f"/costs?agent={installation.agent_id}"
    )
    expect(page.get_by_role("link", name="Iteration 1").first).to_have_attribute(
        "href", f"/agents/{installation.agent_id}/iterations/1"
    )

"""The page of an agent: configuration, live iterations, pausing and access."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SharedInstallation, WindowFactory
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
    # Each card and each bar opens the step that it stands for.
    place = f"/agents/{agent_id}/iterations/2#step-"
    for link in iteration.locator(".step-card-top a, .bar-row").all():
        assert str(link.get_attribute("href")).startswith(place)
    expect(iteration.locator(".bars li").first).to_contain_text("Plan")
    expect(iteration.locator(".stage-count").first).to_have_text(re.compile(r"(\d+) of \1"))
    learned = page.get_by_role("region", name="What changed")
    expect(learned).to_contain_text("Iteration 2")
    window.screenshot("now")


def test_an_agent_is_paused_run_once_and_resumed(window: BrowserWindow) -> None:
    agent_id = create_agent(window, "Watch tin traders and where they store it")
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


def test_results_are_linked(window: BrowserWindow, installation: SharedInstallation) -> None:
    page = window.open(f"/agents/{installation.agent_id}")
    results = page.get_by_role("complementary", name="Results")
    expect(results.get_by_role("heading", name="Latest conclusions")).to_be_visible()
    expect(results.get_by_role("link", name="Today")).to_have_attribute(
        "href", f"/agents/{installation.agent_id}/costs"
    )
    expect(page.get_by_role("link", name="Iteration 1").first).to_have_attribute(
        "href", f"/agents/{installation.agent_id}/iterations/1"
    )


def test_an_agent_of_another_user_is_not_found(
    installation: SharedInstallation, open_window: WindowFactory
) -> None:
    result = installation.vigil.vigil("user", "add", "neighbour")
    assert result.returncode == 0, result.stderr
    stranger = open_window()
    stranger.page.goto(installation.link("neighbour"))
    stranger.page.get_by_role("button", name="Sign in").click()
    expect(stranger.page.get_by_role("heading", name="Agents", exact=True)).to_be_visible()
    stranger.expected.append("404")
    for path in ("", "/settings", "/settings/prompts/observer"):
        page = stranger.open(f"/agents/{installation.agent_id}{path}")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()

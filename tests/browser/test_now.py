"""An agent's page: made, watched while it runs, paused, and nobody else's."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Known, Opener
from tests.support.browser.agents import ENDS_MS, made, ordered
from tests.support.browser.watched import Watched

pytestmark = pytest.mark.browser

LOOK_ON = """() => {
  window.stayed = true;
  window.seen = [];
  const look = () => {
    const flow = document.getElementById("flow");
    if (!flow) return;
    const heading = flow.querySelector("h2").textContent;
    const outcome = flow.querySelector(".flow-head .pill").textContent;
    window.seen.push([heading, outcome, flow.querySelectorAll(".lane").length, Boolean(flow.querySelector(".plan"))]);
  };
  new MutationObserver(look).observe(document.getElementById("now"), {subtree: true, childList: true, characterData: true});
}"""
"""Keeps what the page shows, whenever that changes; a page that is loaded again has forgotten it."""


def test_a_new_agent_is_seen_being_made_and_running_without_a_reload(window: Watched) -> None:
    page = window.open("/agents/new")
    page.get_by_label("What should it watch").fill("Watch cobalt refiners and what they pay")
    page.get_by_role("button", name="Make it").click()
    page.wait_for_url("**/agents/*-*")
    page.evaluate("() => { window.stayed = true; }")
    expect(page.get_by_text("Watch cobalt refiners and what they pay").first).to_be_visible()
    flow = page.get_by_role("region", name="Iteration 1")
    expect(flow.locator(".flow-head").get_by_text("completed")).to_be_visible(timeout=ENDS_MS)
    assert page.evaluate("window.stayed"), "the page was loaded again"
    expect(page.locator("#state")).to_contain_text("watching")
    expect(page.locator("#agent-name")).not_to_be_empty()


def test_an_iteration_is_watched_from_its_plan_to_its_end(window: Watched) -> None:
    agent_id = made(window, "Watch copper smelters and their ore contracts")
    page = window.open(f"/agents/{agent_id}")
    flow = page.locator("#flow")
    expect(flow.locator(".flow-head").get_by_text("completed")).to_be_visible(timeout=ENDS_MS)
    page.evaluate(LOOK_ON)
    ordered(page, agent_id, "run")
    second = page.get_by_role("region", name="Iteration 2")
    expect(second.locator(".flow-head").get_by_text("completed")).to_be_visible(timeout=ENDS_MS)
    assert page.evaluate("window.stayed"), "the page was loaded again"
    seen = page.evaluate("window.seen")
    live = [each for each in seen if each[0] == "Iteration 2" and each[1] == "running"]
    assert [each for each in live if each[2] > 1 and each[3]], f"lanes and plan came late: {seen}"
    expect(second.locator(".plan")).to_contain_text("quer")
    lanes = second.locator(".lane")
    assert lanes.count() >= 2
    for lane in lanes.all():
        expect(lane.locator(".lane-top .pill")).to_have_text("done")
    expect(second.locator(".bars li").first).to_contain_text("Plan")
    expect(second.locator(".join").first).to_contain_text("joined")
    window.shoot("now")


def test_it_is_paused_run_once_and_resumed_by_a_button(window: Watched) -> None:
    agent_id = made(window, "Watch tin traders and where they store it")
    page = window.open(f"/agents/{agent_id}")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ENDS_MS)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("heading", name="Paused")).to_be_visible()
    expect(page.locator("#state")).to_contain_text("paused")
    window.shoot("now-paused")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("heading", name="Iteration 2")).to_be_visible(timeout=ENDS_MS)
    expect(outcome).to_have_text("completed", timeout=ENDS_MS)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#state")).to_contain_text("watching")
    expect(page.get_by_role("heading", name="Next iteration")).to_be_visible()


def test_what_came_of_it_is_linked(window: Watched, known: Known) -> None:
    page = window.open(f"/agents/{known.agent_id}")
    beside = page.get_by_role("complementary", name="What came of it")
    expect(beside.get_by_role("heading", name="Latest conclusions")).to_be_visible()
    expect(beside.get_by_role("link", name="Budget")).to_have_attribute(
        "href", f"/agents/{known.agent_id}/settings#budget"
    )
    expect(page.get_by_role("link", name="Iteration 1")).to_have_attribute(
        "href", f"/agents/{known.agent_id}/iterations/1"
    )


def test_an_agent_of_somebody_else_is_not_there(known: Known, another: Opener) -> None:
    told = known.vigil.vigil("user", "add", "neighbour")
    assert told.returncode == 0, told.stderr
    stranger = another()
    stranger.page.goto(known.link("neighbour"))
    stranger.page.get_by_role("button", name="Sign in").click()
    expect(stranger.page.get_by_role("heading", name="Agents")).to_be_visible()
    stranger.expected.append("404")
    for path in ("", "/settings", "/settings/prompts/observer"):
        page = stranger.open(f"/agents/{known.agent_id}{path}")
        expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()

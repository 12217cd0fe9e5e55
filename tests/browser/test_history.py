"""The history of an agent: the list of iterations, their details, comparisons and costs."""

from decimal import Decimal

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import AGENT, SharedInstallation, WindowFactory
from tests.support.browser.browser_window import BrowserWindow

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = (
    'Watch cobalt makers <img src=x onerror="window.harmed=1"><script>window.harmed=2</script>'
    " [here](javascript:window.harmed=3) & their mines"
)


def test_iterations_are_listed_with_their_results(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open(f"/agents/{installation.agent_id}/iterations")
    row = page.locator("#iteration-1")
    expect(row).to_contain_text("completed")
    expect(row).to_contain_text("queries")
    expect(row).to_contain_text("nodes")
    window.screenshot("iterations")
    page.get_by_label("Outcome").select_option("failed")
    expect(page.get_by_role("heading", name="No iteration ended so")).to_be_visible()


def test_the_next_iteration_appears_without_a_reload(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    agent = installation.vigil.json(
        "agent", "create", HOSTILE, "--name", "Makers", "--interval", "1d"
    )
    page = window.open(f"/agents/{agent['id']}/iterations")
    expect(page.locator("#iteration-1 .pill", has_text="completed")).to_be_visible(timeout=60_000)
    assert installation.vigil.vigil("run", "Makers").returncode == 0
    expect(page.locator("#iteration-2 .pill", has_text="completed")).to_be_visible(timeout=60_000)


def test_an_iteration_expands_to_model_output_and_tool_results(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open(f"/agents/{installation.agent_id}/iterations/1")
    expect(page.locator(".timeline li")).not_to_have_count(0)
    query = page.locator(".step", has=page.get_by_role("heading", name="Query 1"))
    phase_run = query.locator(".run").first
    expect(phase_run).to_contain_text("Knowledge acquisition")
    expect(phase_run.locator(".saying")).to_have_count(0)
    phase_run.locator("summary").first.click()
    tool_call = phase_run.locator(".use", has_text="tavilySearch").first
    tool_call.locator("summary").click()
    expect(tool_call.locator("pre").nth(0)).to_contain_text('"query"')
    expect(tool_call.locator("pre").nth(1)).to_contain_text('"results"')
    expect(tool_call).to_contain_text("$")
    expect(phase_run.locator(".prose").last).to_contain_text("Source")
    phase_run.get_by_text("System prompt").click()
    expect(phase_run.locator(".fold[open] pre").first).to_be_visible()
    window.screenshot("iteration")


def test_written_nodes_are_linked(window: BrowserWindow, installation: SharedInstallation) -> None:
    page = window.open(f"/agents/{installation.agent_id}/iterations/1")
    iteration = installation.vigil.json("iteration", AGENT, "1")
    assert any(
        step["result"].get("nodes") for step in iteration["steps"] if step["kind"] == "query"
    )
    link = page.locator(".written a").first
    assert f"/agents/{installation.agent_id}/" in (link.get_attribute("href") or "")
    page.locator(".run summary", has_text="Graph construction").first.click()
    tool_call = page.locator(".use", has_text="addGraphNode").first
    tool_call.locator("summary").click()
    href = tool_call.get_by_role("link", name="What it wrote").get_attribute("href") or ""
    assert href.startswith(f"/agents/{installation.agent_id}/nodes/")


def test_a_phase_run_has_its_own_url(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    iteration = installation.vigil.json("iteration", AGENT, "1")
    run = iteration["interactions"][0]
    window.open(f"/agents/{installation.agent_id}/iterations/1/runs/{run['id']}")
    expect(window.page.get_by_role("heading", name="Observer")).to_be_visible()
    expect(window.page.locator(".saying")).to_contain_text('"queries"')
    window.screenshot("iteration-run")
    window.expected.append("404")
    window.open(f"/agents/{installation.agent_id}/iterations/1/runs/{installation.agent_id}")
    expect(window.page.get_by_role("heading", name="Nothing is here")).to_be_visible()


def test_hostile_text_has_no_effect(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    name = "Hostile cobalt"
    agent = installation.vigil.json("agent", "create", HOSTILE, "--name", name, "--interval", "1d")
    installation.vigil.ended_iteration(name, 1)
    page = window.open(f"/agents/{agent['id']}/iterations/1")
    for run in page.locator(".run").all():
        run.locator("summary").first.click()
        expect(run.locator(".saying").first).to_be_visible()
        for fold in run.locator(".fold summary, .use summary").all():
            fold.click()
    expect(page.locator("main")).to_contain_text('onerror="window.harmed=1"')
    assert page.evaluate("window.harmed") is None
    assert page.locator("main img, main script, main a[href^=javascript]").count() == 0


def test_two_iterations_are_compared_side_by_side(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    name = "Compared"
    agent = installation.vigil.json(
        "agent", "create", "Watch battery makers", "--name", name, "--interval", "1d"
    )
    installation.vigil.ended_iteration(name, 1)
    assert installation.vigil.vigil("run", name, "--wait").returncode == 0
    page = window.open(f"/agents/{agent['id']}/compare?a=1&b=2")
    sides = page.locator(".side-by-side > section")
    expect(sides).to_have_count(2)
    iteration = installation.vigil.json("iteration", name, "1")
    expect(sides.nth(0)).to_contain_text(iteration["plan"]["queries"][0]["objective"])
    expect(sides.nth(1)).to_contain_text("Iteration 2")
    expect(sides.nth(0)).to_contain_text("The graph gained")
    window.screenshot("compare")
    window.expected.append("404")
    window.open(f"/agents/{agent['id']}/compare?a=1&b=99")
    expect(window.page.get_by_role("heading", name="Nothing is here")).to_be_visible()


def test_costs_equal_those_of_the_cli(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    costs = installation.vigil.json("costs", AGENT, "--by", "phase")
    page = window.open(f"/agents/{installation.agent_id}/costs")
    total = page.locator("[data-total]").get_attribute("data-total")
    assert Decimal(total or "") == Decimal(str(costs["totals"]["cost_usd"]))
    days = page.locator("[data-day]").evaluate_all("rows => rows.map(row => row.dataset.usd)")
    assert len(days) == 30
    assert sum(map(Decimal, days)) == Decimal(total or "")
    phases = page.locator("section", has=page.get_by_role("heading", name="By phase"))
    expect(phases.locator("tbody tr")).to_have_count(len(costs["groups"]))
    expect(page.locator(".chart canvas")).to_be_visible()
    window.screenshot("costs-of-agent")


def test_total_costs_link_to_each_agent(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open("/costs")
    expect(page.locator(".chart canvas")).to_be_visible()
    window.screenshot("costs")
    page.get_by_role("link", name="7 days").click()
    expect(page.locator("[data-day]")).to_have_count(7)
    page.get_by_role("link", name=AGENT).click()
    expect(page).to_have_url(f"{installation.base}/agents/{installation.agent_id}/costs")


def test_an_invalid_date_range_is_reported(window: BrowserWindow) -> None:
    window.expected.append("422")
    page = window.open("/costs?since=2026-02-02&until=2026-01-01")
    expect(page.get_by_role("alert").filter(has_text="not what you asked for")).to_be_visible()
    window.expected.append("No call")
    page = window.open("/costs?since=2020-01-01&until=2020-01-07")
    expect(page.get_by_role("heading", name="Nothing was spent")).to_be_visible()


def test_another_user_sees_neither_iterations_nor_costs(
    open_window: WindowFactory, installation: SharedInstallation
) -> None:
    name = "stranger-to-the-past"
    assert installation.vigil.vigil("user", "add", name).returncode == 0
    stranger = open_window()
    stranger.page.goto(installation.link(name))
    stranger.page.get_by_role("button", name="Sign in").click()
    stranger.page.wait_for_url("**/agents")
    page = stranger.open("/costs")
    expect(page.get_by_role("heading", name="Nothing was spent")).to_be_visible()
    stranger.expected.append("404")
    for path in ("iterations", "iterations/1", "compare", "costs"):
        stranger.open(f"/agents/{installation.agent_id}/{path}")
        expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()

"""What an agent did: its iterations in a row, in full, beside each other, and what they cost."""

from decimal import Decimal

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import AGENT, Known, Opener
from tests.support.browser.watched import Watched

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = (
    'Watch cobalt makers <img src=x onerror="window.harmed=1"><script>window.harmed=2</script>'
    " [here](javascript:window.harmed=3) & their mines"
)


def test_iterations_stand_in_a_row_with_what_they_came_to(window: Watched, known: Known) -> None:
    page = window.open(f"/agents/{known.agent_id}/iterations")
    row = page.locator("#iteration-1")
    expect(row).to_contain_text("completed")
    expect(row).to_contain_text("queries")
    expect(row).to_contain_text("nodes")
    window.shoot("iterations")
    page.get_by_label("Outcome").select_option("failed")
    expect(page.get_by_role("heading", name="No iteration ended so")).to_be_visible()


def test_the_next_iteration_appears_without_a_reload(window: Watched, known: Known) -> None:
    made = known.vigil.json("agent", "create", HOSTILE, "--name", "Makers", "--interval", "1d")
    page = window.open(f"/agents/{made['id']}/iterations")
    expect(page.locator("#iteration-1 .pill", has_text="completed")).to_be_visible(timeout=60_000)
    assert known.vigil.vigil("run", "Makers").returncode == 0
    expect(page.locator("#iteration-2 .pill", has_text="completed")).to_be_visible(timeout=60_000)


def test_an_iteration_unfolds_to_the_models_words_and_a_tools_result(
    window: Watched, known: Known
) -> None:
    page = window.open(f"/agents/{known.agent_id}/iterations/1")
    expect(page.locator(".timeline li")).not_to_have_count(0)
    query = page.locator(".step", has=page.get_by_role("heading", name="Query 1"))
    acquiring = query.locator(".run").first
    expect(acquiring).to_contain_text("Knowledge acquisition")
    expect(acquiring.locator(".saying")).to_have_count(0)
    acquiring.locator("summary").first.click()
    use = acquiring.locator(".use", has_text="tavilySearch").first
    use.locator("summary").click()
    expect(use.locator("pre").nth(0)).to_contain_text('"query"')
    expect(use.locator("pre").nth(1)).to_contain_text('"results"')
    expect(use).to_contain_text("$")
    expect(acquiring.locator(".prose").last).to_contain_text("Source")
    acquiring.get_by_text("System prompt").click()
    expect(acquiring.locator(".fold[open] pre").first).to_be_visible()
    window.shoot("iteration")


def test_what_was_written_is_a_link_away(window: Watched, known: Known) -> None:
    page = window.open(f"/agents/{known.agent_id}/iterations/1")
    told = known.vigil.json("iteration", AGENT, "1")
    assert any(step["result"].get("nodes") for step in told["steps"] if step["kind"] == "query")
    link = page.locator(".written a").first
    assert f"/agents/{known.agent_id}/" in (link.get_attribute("href") or "")
    page.locator(".run summary", has_text="Graph construction").first.click()
    use = page.locator(".use", has_text="addGraphNode").first
    use.locator("summary").click()
    wrote = use.get_by_role("link", name="What it wrote").get_attribute("href") or ""
    assert wrote.startswith(f"/agents/{known.agent_id}/nodes/")


def test_a_phase_run_has_an_address_of_its_own(window: Watched, known: Known) -> None:
    told = known.vigil.json("iteration", AGENT, "1")
    run = told["interactions"][0]
    window.open(f"/agents/{known.agent_id}/iterations/1/runs/{run['id']}")
    expect(window.page.get_by_role("heading", name="Observer")).to_be_visible()
    expect(window.page.locator(".saying")).to_contain_text('"queries"')
    window.shoot("iteration-run")
    window.expected.append("404")
    window.open(f"/agents/{known.agent_id}/iterations/1/runs/{known.agent_id}")
    expect(window.page.get_by_role("heading", name="Nothing is here")).to_be_visible()


def test_hostile_words_stay_words(window: Watched, known: Known) -> None:
    name = "Hostile cobalt"
    made = known.vigil.json("agent", "create", HOSTILE, "--name", name, "--interval", "1d")
    known.vigil.ended_iteration(name, 1)
    page = window.open(f"/agents/{made['id']}/iterations/1")
    for run in page.locator(".run").all():
        run.locator("summary").first.click()
        expect(run.locator(".saying").first).to_be_visible()
        for fold in run.locator(".fold summary, .use summary").all():
            fold.click()
    expect(page.locator("main")).to_contain_text('onerror="window.harmed=1"')
    assert page.evaluate("window.harmed") is None
    assert page.locator("main img, main script, main a[href^=javascript]").count() == 0


def test_two_iterations_stand_beside_each_other(window: Watched, known: Known) -> None:
    name = "Compared"
    made = known.vigil.json(
        "agent", "create", "Watch battery makers", "--name", name, "--interval", "1d"
    )
    known.vigil.ended_iteration(name, 1)
    assert known.vigil.vigil("run", name, "--wait").returncode == 0
    page = window.open(f"/agents/{made['id']}/compare?a=1&b=2")
    sides = page.locator(".beside > section")
    expect(sides).to_have_count(2)
    told = known.vigil.json("iteration", name, "1")
    expect(sides.nth(0)).to_contain_text(told["plan"]["queries"][0]["objective"])
    expect(sides.nth(1)).to_contain_text("Iteration 2")
    expect(sides.nth(0)).to_contain_text("The graph gained")
    window.shoot("compare")
    window.expected.append("404")
    window.open(f"/agents/{made['id']}/compare?a=1&b=99")
    expect(window.page.get_by_role("heading", name="Nothing is here")).to_be_visible()


def test_costs_add_up_to_what_the_command_says(window: Watched, known: Known) -> None:
    told = known.vigil.json("costs", AGENT, "--by", "phase")
    page = window.open(f"/agents/{known.agent_id}/costs")
    total = page.locator("[data-total]").get_attribute("data-total")
    assert Decimal(total or "") == Decimal(str(told["totals"]["cost_usd"]))
    days = page.locator("[data-day]").evaluate_all("rows => rows.map(row => row.dataset.usd)")
    assert len(days) == 30
    assert sum(map(Decimal, days)) == Decimal(total or "")
    phases = page.locator("section", has=page.get_by_role("heading", name="By phase"))
    expect(phases.locator("tbody tr")).to_have_count(len(told["groups"]))
    expect(page.locator(".chart canvas")).to_be_visible()
    window.shoot("costs-of-agent")


def test_costs_of_all_agents_lead_to_each_of_them(window: Watched, known: Known) -> None:
    page = window.open("/costs")
    expect(page.locator(".chart canvas")).to_be_visible()
    window.shoot("costs")
    page.get_by_role("link", name="7 days").click()
    expect(page.locator("[data-day]")).to_have_count(7)
    page.get_by_role("link", name=AGENT).click()
    expect(page).to_have_url(f"{known.base}/agents/{known.agent_id}/costs")


def test_days_that_cannot_be_are_told(window: Watched) -> None:
    window.expected.append("422")
    page = window.open("/costs?since=2026-02-02&until=2026-01-01")
    expect(page.get_by_role("alert").filter(has_text="not what you asked for")).to_be_visible()
    window.expected.append("No call")
    page = window.open("/costs?since=2020-01-01&until=2020-01-07")
    expect(page.get_by_role("heading", name="Nothing was spent")).to_be_visible()


def test_another_user_sees_none_of_it(another: Opener, known: Known) -> None:
    name = "stranger-to-the-past"
    assert known.vigil.vigil("user", "add", name).returncode == 0
    stranger = another()
    stranger.page.goto(known.link(name))
    stranger.page.get_by_role("button", name="Sign in").click()
    stranger.page.wait_for_url("**/agents")
    page = stranger.open("/costs")
    expect(page.get_by_role("heading", name="Nothing was spent")).to_be_visible()
    stranger.expected.append("404")
    for path in ("iterations", "iterations/1", "compare", "costs"):
        stranger.open(f"/agents/{known.agent_id}/{path}")
        expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()

"""The history of an agent: the list of iterations and their details."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
from playwright.sync_api import expect
from sqlalchemy import select, update

from shared.agents import agents
from shared.billing.budgets import SUSPENSION_WORDS
from shared.database.tables import Agent, Call, Interaction, Iteration, Step
from shared.database.transaction import Transaction
from shared.enums import CallKind, IterationStatus, Phase, Stage, StepKind, StepStatus
from shared.workflow.iterations import database_time
from tests.browser.conftest import AGENT, SharedInstallation
from tests.support.browser.agent_data import open_database, run_in_thread
from tests.support.browser.browser_window import BrowserWindow
from tests.support.factories import make_ready
from tests.support.table_rows import add, change

QUIET_COUNT: Final = 5
REFUSED_KEY: Final = "Tavily refused the key: Unauthorized. Check TAVILY_API_KEY"
BUDGET_STOP: Final = (
    f"the budget of the agent for today is reached: 2 USD of 2 USD a day are spent. It is suspended {SUSPENSION_WORDS};"
    " a higher budget resumes it immediately"
)
_LATER: Final = timedelta(hours=1)


async def add_history(url: str, other_agent_id: str) -> UUID:
    """Adds an inactive agent: iteration 1 failed, 2 was stopped by the budget, and QUIET_COUNT quiet ones follow.

    It belongs to the owner of the agent `other_agent_id`. Returns its id.
    """
    async with open_database(url) as database, database.transaction() as session:
        agent = await _add_agent(session, UUID(other_agent_id))
        await _add_ended(session, agent, 1, IterationStatus.FAILED, StepKind.QUERY, REFUSED_KEY)
        await _add_ended(session, agent, 2, IterationStatus.FAILED, StepKind.OBSERVE, BUDGET_STOP)
        for number in range(3, 3 + QUIET_COUNT):
            await _add_ended(session, agent, number, IterationStatus.QUIET, StepKind.OBSERVE, None)
        await session.update(Agent, agent.id, iterations_started=2 + QUIET_COUNT)
        return agent.id


async def _add_agent(session: Transaction, other_agent_id: UUID) -> Agent:
    owner_id = (
        await session.scalars(select(Agent.owner_id).where(Agent.id == other_agent_id))
    ).one()
    agent = await agents.create_agent(
        session,
        owner_id,
        name=f"History {uuid4()}",
        mission="Watch battery makers",
        interval_seconds=86_400,
        active=False,
    )
    await make_ready(session, agent)
    return agent


async def _add_ended(
    session: Transaction,
    agent: Agent,
    number: int,
    status: IterationStatus,
    kind: StepKind,
    error: str | None,
) -> None:
    started_at = datetime.now(UTC) - timedelta(hours=3) + timedelta(minutes=5 * number)
    iteration = _iteration(agent, number, started_at, status=status, stage=Stage.ENDED)
    iteration.ended_at = iteration.end_published_at = started_at + timedelta(seconds=4)
    iteration.errors = [] if error is None else [f"{kind}: {error}"]
    await add(session, iteration)
    step = _step(iteration, kind, 0, StepStatus.COMPLETED if error is None else StepStatus.FAILED)
    step.started_at, step.ended_at = started_at, iteration.ended_at
    step.error, step.result = error, {"quiet": True} if error is None else None
    await add(session, step)


def _iteration(agent: Agent, number: int, started_at: datetime, **values: Any) -> Iteration:
    return Iteration(
        id=uuid4(),
        agent_id=agent.id,
        number=number,
        why="due",
        started_at=started_at,
        stage_changed_at=started_at,
        deadline_at=started_at + _LATER,
        **values,
    )


def _step(iteration: Iteration, kind: StepKind, index: int, status: StepStatus) -> Step:
    return Step(
        id=uuid4(),
        iteration_id=iteration.id,
        agent_id=iteration.agent_id,
        kind=kind,
        index=index,
        status=status,
        input={"objective": f"Who buys lithium from maker {index + 1}?"},
        first_requested_at=iteration.started_at,
        requested_at=iteration.started_at,
    )


async def begin_iteration(url: str, agent_id: UUID) -> int:
    """Adds a running iteration: its first query waits for the model, its second for the provider. Returns its number.

    No service of the installation continues it within the hour.
    """
    async with open_database(url) as database, database.transaction() as session:
        agent = await session.get_one(Agent, agent_id)
        agent = await change(session, agent, iterations_started=agent.iterations_started + 1)
        now = await database_time(session)
        started_at = now - timedelta(seconds=30)
        iteration = _iteration(
            agent,
            agent.iterations_started,
            started_at,
            status=IterationStatus.RUNNING,
            stage=Stage.RESEARCHING,
        )
        iteration.deadline_at = now + _LATER
        await add(session, iteration)
        running = _step(iteration, StepKind.QUERY, 0, StepStatus.RUNNING)
        running.started_at, running.lease_owner = started_at + timedelta(seconds=5), "test"
        running.lease_until, running.epoch = now + _LATER, 1
        waiting = _step(iteration, StepKind.QUERY, 1, StepStatus.PENDING)
        waiting.started_at = waiting.waiting_since = started_at + timedelta(seconds=8)
        waiting.retry_at, waiting.error = now + _LATER, "the model server answered 503: overloaded"
        await add(session, *[running, waiting])
        await _add_call(session, running)
        return iteration.number


async def _add_call(session: Transaction, step: Step) -> None:
    assert step.started_at is not None
    run = Interaction(
        id=uuid4(),
        agent_id=step.agent_id,
        iteration_id=step.iteration_id,
        step_id=step.id,
        phase=Phase.KNOWLEDGE_ACQUISITION,
        model="a-model",
        system_prompt="You search.",
        request={"messages": [{"role": "user", "content": "Who buys lithium?"}], "tools": []},
        created_at=step.started_at,
    )
    await add(session, run)
    await session.insert(
        Call,
        id=uuid4(),
        agent_id=step.agent_id,
        iteration_id=step.iteration_id,
        step_id=step.id,
        interaction_id=run.id,
        kind=CallKind.LLM,
        phase=run.phase,
        model=run.model,
        request_hash=str(run.id),
        request={},
        attempts=1,
        started_at=step.started_at,
        sent_at=step.started_at,
    )


async def end_query(url: str, agent_id: UUID, number: int) -> None:
    """Ends the first query of the iteration, as its worker would."""
    async with open_database(url) as database, database.transaction() as session:
        now = await database_time(session)
        iteration_id = (
            await session.scalars(
                select(Iteration.id).where(
                    Iteration.agent_id == agent_id, Iteration.number == number
                )
            )
        ).one()
        await session.execute(
            update(Call).where(Call.iteration_id == iteration_id).values(answered_at=now)
        )
        await session.execute(
            update(Interaction)
            .where(Interaction.iteration_id == iteration_id)
            .values(completed_at=now)
        )
        await session.execute(
            update(Step)
            .where(Step.iteration_id == iteration_id, Step.status == StepStatus.RUNNING)
            .values(status=StepStatus.COMPLETED, ended_at=now, result={"nodes": 0, "edges": 0})
        )


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
    expect(row.locator(".gained")).to_contain_text("nodes")
    expect(row.locator(".length rect")).to_be_visible()
    window.screenshot("iterations")
    page.get_by_role("link", name="Failed", exact=True).click()
    expect(page.get_by_role("heading", name="No failed iterations")).to_be_visible()
    page.get_by_role("link", name="Show all iterations").click()
    expect(row).to_be_visible()


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
    # The strip above follows too, and its bars are links.
    expect(page.locator(".strip a")).to_have_count(2)
    page.locator(".strip a").first.click()
    expect(page).to_have_url(f"{installation.base}/agents/{agent['id']}/iterations/1")


def test_quiet_iterations_are_one_row_that_unfolds(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    agent_id = run_in_thread(
        add_history(installation.vigil.running.database_url, installation.agent_id)
    )
    page = window.open(f"/agents/{agent_id}/iterations")
    run = page.locator("[data-unfolds]", has_text=f"{QUIET_COUNT} quiet")
    expect(run).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#iteration-4")).to_have_count(0)
    expect(page.locator("#iteration-1")).to_contain_text("The search service refused the key")
    expect(page.locator("#iteration-2")).to_contain_text("stopped")
    window.screenshot("iterations-quiet")
    run.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#iteration-4")).to_be_visible()
    expect(page.locator(".quiet-rows tr")).to_have_count(QUIET_COUNT)
    expect(run).to_have_attribute("aria-expanded", "true")
    run.click()
    expect(page.locator("#iteration-4")).to_be_hidden()
    page.get_by_role("link", name="Stopped", exact=True).click()
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    expect(page.locator("#iteration-2")).to_contain_text("Daily budget reached")


def test_what_failed_says_why_and_what_to_do(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    agent_id = run_in_thread(
        add_history(installation.vigil.running.database_url, installation.agent_id)
    )
    page = window.open(f"/agents/{agent_id}/iterations/1")
    problem = page.locator(".problem")
    expect(problem).to_contain_text("The search service refused the key")
    expect(problem).to_contain_text("Correct TAVILY_API_KEY")
    expect(problem.get_by_role("button", name="Run again")).to_be_visible()
    expect(page.locator('tr[data-kind="step"][data-tone="bad"]')).to_contain_text("failed")
    window.screenshot("iteration-failed")
    page.get_by_role("link", name="Iteration 2", exact=True).click()
    expect(problem).to_contain_text("Stopped: daily budget reached")
    expect(problem.get_by_role("button", name="Run again")).to_have_count(0)
    expect(page.locator(".sub-head .pill")).to_have_text("stopped")
    window.screenshot("iteration-stopped")
    problem.get_by_role("link", name="Change the budget").click()
    expect(page).to_have_url(f"{installation.base}/agents/{agent_id}/settings#budget")


def test_a_row_opens_its_details_with_their_address(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open(f"/agents/{installation.agent_id}/iterations/1")
    details = page.locator("#details")
    expect(details).to_be_hidden()
    search = page.locator('tr[data-kind="search"]').first
    search.locator("a").click()
    expect(details.get_by_role("heading", name="Search", exact=True)).to_be_visible()
    expect(search).to_have_attribute("aria-selected", "true")
    expect(details.locator(".results li")).not_to_have_count(0)
    expect(details.locator(".results a").first).to_have_attribute(
        "href", re.compile(rf"^/agents/{installation.agent_id}/sources/")
    )
    expect(details).to_contain_text('"query"')
    details.locator(".fold summary", has_text="Answer").click()
    expect(details.locator(".fold[open] pre")).to_contain_text('"results"')
    address = page.url
    assert "open=call-" in address
    page.locator('tr[data-kind="model"] a').first.click()
    expect(details.get_by_role("heading", name="Model call 1")).to_be_visible()
    expect(details).to_contain_text("tokens")
    details.locator(".fold summary", has_text="System prompt").click()
    expect(details.locator(".fold[open] pre").first).to_be_visible()
    window.screenshot("iteration-details")
    page.go_back()
    expect(details.get_by_role("heading", name="Search", exact=True)).to_be_visible()
    assert page.url == address
    window.open(urlsplit(address)._replace(scheme="", netloc="").geturl())
    expect(details.get_by_role("heading", name="Search", exact=True)).to_be_visible()
    details.get_by_role("link", name="Close the details").click()
    expect(details).to_be_hidden()
    assert "open=" not in page.url
    window.screenshot("iteration")


def test_the_waterfall_works_by_keyboard(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    page = window.open(f"/agents/{installation.agent_id}/iterations/1?rows=steps")
    focused = page.locator(".waterfall tr:focus")
    plan = page.locator('tr[data-kind="step"]').first
    page.locator('tr[aria-level="1"][tabindex="0"]').focus()
    page.keyboard.press("ArrowDown")
    expect(focused).to_contain_text("Start")
    page.keyboard.press("Enter")
    expect(page.locator("#details .lead")).to_have_text("The scheduler started this iteration.")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowDown")
    expect(focused).to_contain_text("Plan")
    expect(plan).to_have_attribute("aria-expanded", "false")
    expect(page.locator('tr[data-kind="run"]').first).to_be_hidden()
    page.keyboard.press("ArrowRight")
    expect(plan).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowRight")
    expect(focused).to_contain_text("Observer")
    page.keyboard.press("Enter")
    details = page.locator("#details")
    expect(details.get_by_role("heading", name="Observer")).to_be_visible()
    page.keyboard.press("Escape")
    expect(details).to_be_hidden()
    expect(focused).to_contain_text("Observer")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(focused).to_contain_text("Plan")
    expect(page.locator('tr[data-kind="run"]').first).to_be_hidden()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".waterfall tbody tr:visible")).to_have_count(1)
    page.get_by_role("link", name="Everything", exact=True).click()
    expect(page.locator(".waterfall tbody tr[hidden]")).to_have_count(0)
    assert "rows=all" in page.url


def test_a_running_iteration_is_updated_and_keeps_what_was_folded(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    agent_id = run_in_thread(
        add_history(installation.vigil.running.database_url, installation.agent_id)
    )
    number = run_in_thread(begin_iteration(installation.vigil.running.database_url, agent_id))
    page = window.open(f"/agents/{agent_id}/iterations/{number}?rows=steps")
    query = page.locator('tr[data-kind="step"]', has_text="Query 1")
    expect(query.locator(".pill")).to_have_text("running")
    expect(page.locator('tr[data-kind="step"]', has_text="Query 2")).to_contain_text(
        "waiting for the provider"
    )
    assert page.locator('rect[data-part="wait"]').count() >= 1
    query.locator("a").click()
    expect(page.locator("#details").get_by_role("heading", name="Query 1")).to_be_visible()
    page.keyboard.press("Escape")
    for _ in range(3):  # unfold the query, go to its phase run, unfold that
        page.keyboard.press("ArrowRight")
    call = page.locator('tr[data-kind="model"]')
    expect(call).to_be_visible()
    expect(call).to_contain_text("waiting for the answer")
    window.screenshot("iteration-running")
    run_in_thread(end_query(installation.vigil.running.database_url, agent_id, number))
    expect(query.locator(".pill")).to_have_count(0, timeout=10_000)
    expect(call).to_be_visible()
    expect(page.locator('tr[data-kind="run"]')).to_be_focused()


def test_written_nodes_are_linked(window: BrowserWindow, installation: SharedInstallation) -> None:
    page = window.open(f"/agents/{installation.agent_id}/iterations/1")
    iteration = installation.vigil.json("iteration", AGENT, "1")
    assert any(
        step["result"].get("nodes") for step in iteration["steps"] if step["kind"] == "query"
    )
    details = page.locator("#details")
    page.locator(".came").get_by_role("link").last.click()
    link = details.locator(".written a").first
    assert f"/agents/{installation.agent_id}/" in (link.get_attribute("href") or "")
    page.locator('tr[data-kind="tool"] a', has_text="addGraphNode").first.click()
    tool_call = details.locator(".use").first
    expect(tool_call).to_be_visible()
    if tool_call.get_attribute("open") is None:
        tool_call.locator("summary").click()
    href = tool_call.get_by_role("link", name="Open what it wrote").get_attribute("href") or ""
    assert href.startswith(f"/agents/{installation.agent_id}/nodes/")


def test_a_phase_run_has_its_own_url(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    iteration = installation.vigil.json("iteration", AGENT, "1")
    run = iteration["interactions"][0]
    window.open(f"/agents/{installation.agent_id}/iterations/1?open=run-{run['id']}")
    window.page.get_by_role("link", name="Read the full transcript").click()
    expect(window.page).to_have_url(
        f"{installation.base}/agents/{installation.agent_id}/iterations/1/runs/{run['id']}"
    )
    expect(window.page.get_by_role("heading", name="Observer")).to_be_visible()
    expect(window.page.locator(".turn")).to_contain_text('"queries"')
    window.screenshot("iteration-run")
    window.expected.append("404")
    window.open(f"/agents/{installation.agent_id}/iterations/1/runs/{installation.agent_id}")
    expect(window.page.get_by_role("heading", name="Not found")).to_be_visible()


def test_hostile_text_has_no_effect(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    name = "Hostile cobalt"
    agent = installation.vigil.json("agent", "create", HOSTILE, "--name", name, "--interval", "1d")
    installation.vigil.ended_iteration(name, 1)
    page = window.open(f"/agents/{agent['id']}/iterations/1?rows=all")
    details = page.locator("#details")
    texts = []
    for key in page.locator(".waterfall tbody tr").evaluate_all("rows => rows.map(row => row.id)"):
        page.locator(f"#{key} a").click()
        expect(page.locator(f"#{key}")).to_have_attribute("aria-selected", "true")
        expect(details).not_to_have_attribute("aria-busy", "true")
        for fold in details.locator("summary").all():
            fold.click()
        texts.append(details.inner_text())
        assert page.locator("main img, main script, main a[href^=javascript]").count() == 0
    assert any('onerror="window.harmed=1"' in text for text in texts)
    assert page.evaluate("window.harmed") is None


def test_an_iteration_that_concludes_shows_all_its_steps(
    window: BrowserWindow, installation: SharedInstallation
) -> None:
    name = "Concluding"
    agent = installation.vigil.json(
        "agent", "create", "Watch battery makers", "--name", name, "--interval", "1d"
    )
    installation.vigil.ended_iteration(name, 1)
    assert installation.vigil.vigil("run", name, "--wait").returncode == 0
    page = window.open(f"/agents/{agent['id']}/iterations/2?rows=all")
    waterfall = page.locator(".waterfall")
    for name in ("Start", "Plan", "Insight 1", "Advice"):
        expect(waterfall.get_by_role("link", name=name, exact=True)).to_be_visible()
    expect(waterfall).to_contain_text("requested with Run now")
    window.screenshot("iteration-advice")

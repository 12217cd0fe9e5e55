"""The page of an agent during provider failures: it shows the error and the next step."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

import psycopg
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import SharedInstallation
from tests.support.browser.agents import ITERATION_TIMEOUT_MS, create_agent, send_command
from tests.support.browser.browser_window import WIDE, BrowserWindow
from tests.support.e2e.installation import installed
from tests.support.sandbox_control import Sandbox

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@dataclass(frozen=True)
class FaultyInstallation:
    window: BrowserWindow
    sandbox: Sandbox
    database_url: str

    def update_rows(self, statement: LiteralString, *params: str) -> None:
        """Update rows of the running installation; fail if none match."""
        with psycopg.connect(self.database_url) as connection:
            assert connection.execute(statement, params).rowcount


@pytest.fixture(scope="module")
def window_and_database_url(
    sandbox_server: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrowserWindow, str]]:
    """The owner's browser window and the database URL of an installation with fault injection."""
    environment = {
        "OPENAI_BASE_URL": f"{sandbox_server}/v1",
        "OPENAI_API_KEY": "sandbox",
        "OPENAI_MODEL": "sandbox-reader",
        "TAVILY_BASE_URL": sandbox_server,
        "TAVILY_API_KEY": "sandbox",
    }
    with installed(tmp_path_factory.mktemp("troubled"), environment, is_paced=True) as vigil:
        vigil.up()
        installation = SharedInstallation(vigil, vigil.running.api_url, "")
        context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]  # a TypedDict of these two
        window = BrowserWindow(context.new_page(), installation.base)
        window.page.goto(installation.link())
        window.page.get_by_role("button", name="Sign in").click()
        window.page.wait_for_url("**/agents")
        yield window, vigil.running.database_url
        context.close()


@pytest.fixture
def faulty(
    window_and_database_url: tuple[BrowserWindow, str], sandbox: str
) -> Iterator[FaultyInstallation]:
    window, database_url = window_and_database_url
    yield FaultyInstallation(window, Sandbox(sandbox), database_url)
    window.check()


def test_a_failed_configuration_is_explained_and_retried(faulty: FaultyInstallation) -> None:
    faulty.sandbox.faults({"kind": "status", "status": 401, "phase": "configuration", "count": 1})
    agent_id = create_agent(faulty.window, "Watch silver mines and their neighbours")
    page = faulty.window.open(f"/agents/{agent_id}")
    heading = page.get_by_role("heading", name="Configuration failed")
    expect(heading).to_be_visible(timeout=ITERATION_TIMEOUT_MS)
    expect(page.get_by_role("button", name="Run now")).to_be_disabled()
    faulty.window.screenshot("now-not-configured")
    page.get_by_role("button", name="Configure again").click()
    expect(heading).to_have_count(0)
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ITERATION_TIMEOUT_MS)


def test_the_progress_of_a_configuration_is_shown(faulty: FaultyInstallation) -> None:
    slow = {"kind": "latency", "latency_seconds": 5, "phase": "configuration", "always": True}
    faulty.sandbox.faults(slow)
    agent_id = create_agent(faulty.window, "Watch gold refiners and where they buy")
    page = faulty.window.open(f"/agents/{agent_id}")
    configuration = page.get_by_role("region", name="Configuration")
    expect(configuration.get_by_role("heading", name="Configuring")).to_be_visible()
    expect(configuration.locator("li", has_text="Name and six")).to_contain_text(
        "the model is writing"
    )
    expect(configuration.locator("li", has_text="Name and six")).to_contain_text(
        "written", timeout=ITERATION_TIMEOUT_MS
    )
    expect(configuration.locator("li", has_text="Types")).to_contain_text("the model is choosing")
    faulty.window.screenshot("now-configuring")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ITERATION_TIMEOUT_MS)


def test_a_query_with_an_unavailable_provider_shows_its_next_retry(
    faulty: FaultyInstallation,
) -> None:
    agent_id = create_agent(faulty.window, "Watch nickel smelters and their strikes")
    page = faulty.window.open(f"/agents/{agent_id}")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ITERATION_TIMEOUT_MS)
    slow = {"kind": "latency", "latency_seconds": 4, "phase": "graph_construction", "always": True}
    unavailable = {"kind": "status", "status": 503, "phase": "knowledge_acquisition", "count": 8}
    faulty.sandbox.faults(slow, unavailable)
    send_command(page, agent_id, "run")
    step_card = page.locator(
        ".step-card", has=page.get_by_role("img", name="waiting for the provider")
    ).first
    expect(step_card).to_contain_text("Waiting for", timeout=ITERATION_TIMEOUT_MS)
    trouble = page.get_by_role("region", name="Problems")
    expect(trouble).to_contain_text("503")
    expect(trouble).to_contain_text("next attempt")
    # The same error of several steps is shown once, and opens each of them.
    expect(page.get_by_text("answered 503")).to_have_count(1)
    expect(trouble.get_by_role("link", name="Query 1")).to_have_attribute(
        "href", re.compile(rf"^/agents/{agent_id}/iterations/2\?open=step-")
    )
    faulty.window.screenshot("now-troubled")
    faulty.sandbox.reset()
    expect(page.locator("#flow h2")).to_have_text("Iteration 2")
    expect(outcome).to_have_text("completed", timeout=2 * ITERATION_TIMEOUT_MS)
    expect(page.get_by_role("region", name="Problems")).to_have_count(0)


def test_an_agent_without_budget_is_suspended_until_it_gets_more(
    faulty: FaultyInstallation,
) -> None:
    agent_id = create_agent(faulty.window, "Watch platinum buyers and their stocks")
    page = faulty.window.open(f"/agents/{agent_id}")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ITERATION_TIMEOUT_MS)
    page.goto(f"{page.url}/settings")
    page.get_by_label("Calls a day").fill("1")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**saved=*")
    page = faulty.window.open(f"/agents/{agent_id}")
    page.get_by_role("button", name="Run now").click()
    heading = page.get_by_role("heading", name="Suspended: daily budget reached")
    expect(heading).to_be_visible(timeout=ITERATION_TIMEOUT_MS)
    expect(page.get_by_role("button", name="Run now")).to_be_disabled()
    faulty.window.screenshot("now-budget-reached")
    page.get_by_role("link", name="Change the budget").click()
    page.get_by_label("Calls a day").fill("")
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url("**saved=*")
    faulty.window.open(f"/agents/{agent_id}")
    expect(heading).to_have_count(0)


def test_a_long_answer_shows_its_length_and_an_unavailable_provider_its_wait(
    faulty: FaultyInstallation,
) -> None:
    agent_id = create_agent(faulty.window, "Watch cobalt mines and their owners")
    slow = {"kind": "latency", "latency_seconds": 35, "phase": "knowledge_acquisition"}
    faulty.sandbox.faults({**slow, "count": 1})
    page = faulty.window.open(f"/agents/{agent_id}")
    step_card = page.locator(".step-card", has_text="Waiting for the first token").first
    expect(step_card).to_contain_text("Waiting for the first token", timeout=ITERATION_TIMEOUT_MS)
    faulty.update_rows(
        "update calls set received_chars = 4321, progressed_at = clock_timestamp(),"
        " sent_at = sent_at - interval '2 minutes' where reserved_on is not null and agent_id = %s",
        agent_id,
    )
    expect(page.locator(".step-card", has_text="characters received").first).to_contain_text(
        "4,321 characters received in 2 min"
    )
    faulty.update_rows(
        "update steps set waiting_since = clock_timestamp() - interval '12 minutes',"
        " retry_at = clock_timestamp() + interval '4 minutes', error = %s"
        " where kind = 'query' and status = 'running' and agent_id = %s",
        "no answer from the model server at http://127.0.0.1:9/v1: connection refused",
        agent_id,
    )
    region = page.get_by_role("region", name="Problems")
    expect(region).to_contain_text("Waiting for 12 min")
    expect(region).to_contain_text("connection refused (next attempt in ")
    faulty.window.screenshot("now-waiting")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=2 * ITERATION_TIMEOUT_MS)
    expect(region).to_have_count(0)

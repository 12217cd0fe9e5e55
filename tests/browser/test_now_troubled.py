"""An agent's page while things go wrong outside: what fails is told plainly, with what can be done."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

import psycopg
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Known
from tests.support.browser.agents import ENDS_MS, made, ordered
from tests.support.browser.watched import WIDE, Watched
from tests.support.e2e.installation import installed
from tests.support.levers import Sandbox

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@dataclass(frozen=True)
class Troubled:
    window: Watched
    levers: Sandbox
    database_url: str

    def change(self, statement: LiteralString, *given: str) -> None:
        """Changes rows of the running installation; fails where there are none."""
        with psycopg.connect(self.database_url) as connection:
            assert connection.execute(statement, given).rowcount


@pytest.fixture(scope="module")
def breakable(
    sandbox_server: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Watched, str]]:
    """The owner's browser and the database, of an installation whose model and search service a test can break."""
    environment = {
        "OPENAI_BASE_URL": f"{sandbox_server}/v1",
        "OPENAI_API_KEY": "sandbox",
        "OPENAI_MODEL": "sandbox-reader",
        "TAVILY_BASE_URL": sandbox_server,
        "TAVILY_API_KEY": "sandbox",
    }
    with installed(tmp_path_factory.mktemp("troubled"), environment) as vigil:
        vigil.up()
        known = Known(vigil, vigil.running.api_url, "")
        context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]  # a TypedDict of these two
        watched = Watched(context.new_page(), known.base)
        watched.page.goto(known.link())
        watched.page.get_by_role("button", name="Sign in").click()
        watched.page.wait_for_url("**/agents")
        yield watched, vigil.running.database_url
        context.close()


@pytest.fixture
def troubled(breakable: tuple[Watched, str], sandbox: str) -> Iterator[Troubled]:
    window, database_url = breakable
    yield Troubled(window, Sandbox(sandbox), database_url)
    window.check()


def test_an_agent_that_cannot_be_configured_says_why_and_is_tried_again(troubled: Troubled) -> None:
    troubled.levers.faults({"kind": "status", "status": 401, "phase": "configuration", "count": 1})
    agent_id = made(troubled.window, "Watch silver mines and their neighbours")
    page = troubled.window.open(f"/agents/{agent_id}")
    failed = page.get_by_role("heading", name="It could not be configured")
    expect(failed).to_be_visible(timeout=ENDS_MS)
    expect(page.get_by_role("button", name="Run now")).to_be_disabled()
    troubled.window.shoot("now-not-configured")
    page.get_by_role("button", name="Configure again").click()
    expect(failed).to_have_count(0)
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ENDS_MS)


def test_its_making_is_told_as_it_goes(troubled: Troubled) -> None:
    slow = {"kind": "latency", "latency_seconds": 5, "phase": "configuration", "always": True}
    troubled.levers.faults(slow)
    agent_id = made(troubled.window, "Watch gold refiners and where they buy")
    page = troubled.window.open(f"/agents/{agent_id}")
    making = page.get_by_role("region", name="Configuration")
    expect(making.get_by_role("heading", name="Being configured")).to_be_visible()
    expect(making.locator("li", has_text="Name and six")).to_contain_text("the model writes")
    expect(making.locator("li", has_text="Name and six")).to_contain_text(
        "written", timeout=ENDS_MS
    )
    expect(making.locator("li", has_text="Types")).to_contain_text("chooses")
    troubled.window.shoot("now-configuring")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ENDS_MS)


def test_a_query_whose_provider_is_away_is_seen_waiting_for_its_next_try(
    troubled: Troubled,
) -> None:
    agent_id = made(troubled.window, "Watch nickel smelters and their strikes")
    page = troubled.window.open(f"/agents/{agent_id}")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ENDS_MS)
    slow = {"kind": "latency", "latency_seconds": 4, "phase": "graph_construction", "always": True}
    away = {"kind": "status", "status": 503, "phase": "knowledge_acquisition", "count": 8}
    troubled.levers.faults(slow, away)
    ordered(page, agent_id, "run")
    lane = page.locator(".lane", has=page.get_by_text("provider away", exact=True)).first
    expect(lane).to_contain_text("Waiting for", timeout=ENDS_MS)
    trouble = page.get_by_role("region", name="Trouble")
    expect(trouble).to_contain_text("503")
    expect(trouble).to_contain_text("next try")
    troubled.window.shoot("now-troubled")
    troubled.levers.reset()
    expect(page.locator("#flow h2")).to_have_text("Iteration 2")
    expect(outcome).to_have_text("completed", timeout=2 * ENDS_MS)
    expect(page.get_by_role("region", name="Trouble")).to_have_count(0)


def test_an_agent_that_has_spent_its_budget_rests_until_it_is_given_more(
    troubled: Troubled,
) -> None:
    agent_id = made(troubled.window, "Watch platinum buyers and their stocks")
    page = troubled.window.open(f"/agents/{agent_id}")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=ENDS_MS)
    page.goto(f"{page.url}/settings")
    page.get_by_label("Calls a day").fill("1")
    page.locator("#budget").get_by_role("button", name="Save").click()
    page = troubled.window.open(f"/agents/{agent_id}")
    page.get_by_role("button", name="Run now").click()
    rests = page.get_by_role("heading", name="It rests")
    expect(rests).to_be_visible(timeout=ENDS_MS)
    expect(page.get_by_role("button", name="Run now")).to_be_disabled()
    troubled.window.shoot("now-resting")
    page.get_by_role("link", name="Change the budget").click()
    page.get_by_label("Calls a day").fill("")
    page.locator("#budget").get_by_role("button", name="Save").click()
    troubled.window.open(f"/agents/{agent_id}")
    expect(rests).to_have_count(0)


def test_a_long_answer_is_seen_growing_and_an_absent_provider_waited_for(
    troubled: Troubled,
) -> None:
    agent_id = made(troubled.window, "Watch cobalt mines and their owners")
    slow = {"kind": "latency", "latency_seconds": 35, "phase": "knowledge_acquisition"}
    troubled.levers.faults({**slow, "count": 1})
    page = troubled.window.open(f"/agents/{agent_id}")
    lane = page.locator(".lane", has_text="Waiting for the first token").first
    expect(lane).to_contain_text("Waiting for the first token", timeout=ENDS_MS)
    troubled.change(
        "update calls set received_chars = 4321, progressed_at = clock_timestamp(),"
        " sent_at = sent_at - interval '2 minutes' where reserved_on is not null and agent_id = %s",
        agent_id,
    )
    expect(page.locator(".lane", has_text="The answer grows").first).to_contain_text(
        "The answer grows: 4,321 characters after 2 min"
    )
    troubled.change(
        "update steps set waiting_since = clock_timestamp() - interval '12 minutes',"
        " retry_at = clock_timestamp() + interval '4 minutes', error = %s"
        " where kind = 'query' and status = 'running' and agent_id = %s",
        "no answer from the model server at http://127.0.0.1:9/v1: connection refused",
        agent_id,
    )
    region = page.get_by_role("region", name="Trouble")
    expect(region).to_contain_text("Waiting for 12 min")
    expect(region).to_contain_text("connection refused (next try in ")
    troubled.window.shoot("now-waiting")
    outcome = page.locator("#flow .flow-head .pill").first
    expect(outcome).to_have_text("completed", timeout=2 * ENDS_MS)
    expect(region).to_have_count(0)

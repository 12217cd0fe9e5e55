"""Data of the history pages: transcripts of runs, and superseded claims."""

from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import update

from services.api.resources.iterations import model as iterations
from services.api.resources.iterations import transcripts
from shared.database.engine import Database
from shared.database.tables import Agent, Call, GraphNodeType
from shared.graph import elements
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.workflow.iterations import StartedIteration
from tests.support.api.access import agent_access, is_missing, owner_access
from tests.support.api.full_agent import (
    AGENT,
    ANSWER_TEXT,
    add_phase_run,
    create_full_agent,
    end_iteration,
)
from tests.support.api.rows import get_agent
from tests.support.factories import make_agent, make_iteration

ROOT = "http://127.0.0.1"


async def test_each_tool_result_is_joined_with_its_call(database: Database) -> None:
    agent, run_id = await _create_agent_with_run(database)
    async with database.transaction() as session:
        first, last = await transcripts.list_answers(owner_access(session, agent.owner_id), run_id)
        assert await is_missing(transcripts.list_answers(owner_access(session, uuid4()), run_id))
    (tool_use,) = first.tool_uses
    assert (tool_use.name, tool_use.result, tool_use.has_ended) == (
        "tavilySearch",
        {"results": []},
        True,
    )
    assert tool_use.spent is not None
    assert (last.text, last.tool_uses, last.spent.input_tokens) == (ANSWER_TEXT, [], 7)


async def test_expired_calls_are_marked_and_the_rest_is_shown(
    database: Database, api: httpx.AsyncClient
) -> None:
    agent, run_id = await _create_agent_with_run(database)
    async with database.transaction() as session:
        await session.execute(update(Call).where(Call.agent_id == agent.id).values(answer=None))
    async with database.transaction() as session:
        first, last = await transcripts.list_answers(owner_access(session, agent.owner_id), run_id)
    assert not first.is_kept
    assert not last.is_kept
    assert [(tool_use.name, tool_use.result) for tool_use in first.tool_uses] == [
        ("tavilySearch", None),
        ("queryGraph", {"nodes": []}),
    ]
    page = await api.get(f"{ROOT}/agents/{agent.id}/iterations/1/runs/{run_id}")
    assert page.text.count("The answer is no longer stored.") == 2
    assert "This result is no longer stored." in page.text


async def test_an_iteration_has_the_costs_of_each_run(database: Database) -> None:
    agent, run_id = await _create_agent_with_run(database)
    async with database.transaction() as session:
        trace = await iterations.get_trace(agent_access(session, agent.owner_id, agent.id), 1)
    (run,) = trace.runs
    assert (run.id, run.event_count, run.spent.calls, run.spent.input_tokens) == (run_id, 4, 3, 14)
    # Two answered model calls for which the server reported no price.
    assert (run.spent.unpriced, trace.sums.spent.unpriced) == (2, 2)


async def test_a_different_value_of_a_later_page_supersedes_the_earlier(database: Database) -> None:
    agent = await _create_agent_with_type(database)
    first = await _run_iteration(database, agent, tonnes=5, year=2024)
    second = await _run_iteration(database, agent, tonnes=7, year=2025)
    async with database.transaction() as session:
        access = agent_access(session, agent.owner_id, agent.id)
        assert await iterations.list_superseded(access, first, limit=9) == []
        (superseded,) = await iterations.list_superseded(access, second, limit=9)
    assert (superseded.kind, superseded.name, superseded.property) == (
        "node",
        "Halden Cells",
        "tonnes",
    )
    assert (superseded.before, superseded.after) == (5, 7)


async def test_a_value_without_a_date_supersedes_one_of_its_own_page(database: Database) -> None:
    agent = await _create_agent_with_type(database)
    await _run_iteration(database, agent, tonnes=3, year=None, page="mirror")
    await _run_iteration(database, agent, tonnes=5, year=None)
    other = await _run_iteration(database, agent, tonnes=7, year=None)
    own = await _run_iteration(database, agent, tonnes=9, year=None, page="mirror")
    async with database.transaction() as session:
        access = agent_access(session, agent.owner_id, agent.id)
        assert await iterations.list_superseded(access, other, limit=9) == []
        (superseded,) = await iterations.list_superseded(access, own, limit=9)
    assert (superseded.before, superseded.after) == (3, 9)


async def test_only_a_value_that_was_in_force_is_superseded(database: Database) -> None:
    agent = await _create_agent_with_type(database)
    for tonnes, year in ((31, 2023), (17, 2025)):
        await _run_iteration(database, agent, tonnes=tonnes, year=year)
    # A page between both says the current value, or another one.
    again = await _run_iteration(database, agent, tonnes=17, year=2024)
    late = await _run_iteration(database, agent, tonnes=5, year=2024, page="late")
    newest = await _run_iteration(database, agent, tonnes=7, year=2026)
    equal = await _run_iteration(database, agent, tonnes=7, year=2027)
    async with database.transaction() as session:
        access = agent_access(session, agent.owner_id, agent.id)
        for iteration in (again, late, equal):
            assert await iterations.list_superseded(access, iteration, limit=9) == []
        (superseded,) = await iterations.list_superseded(access, newest, limit=9)
    assert (superseded.before, superseded.after) == (17, 7)


@pytest.mark.parametrize("page", ["iterations", "iterations/1", "settings"])
async def test_the_history_pages_of_a_full_agent_are_rendered(
    database: Database, api: httpx.AsyncClient, page: str
) -> None:
    await api.get("/agents")  # creates the owner
    full = await create_full_agent(database)
    response = await api.get(f"{ROOT}/agents/{full.agent_id}/{page}")
    assert response.status_code == 200, response.text
    assert AGENT in response.text
    assert (await api.get(f"{ROOT}/agents/{uuid4()}/{page}")).status_code == 404


async def _create_agent_with_run(database: Database) -> tuple[Agent, UUID]:
    agent = await make_agent(database, name=AGENT)
    started = await make_iteration(database, agent)
    run_id = await add_phase_run(database, started)
    return await get_agent(database, AGENT), run_id


async def _create_agent_with_type(database: Database) -> Agent:
    """Creates an agent with the node type Thing."""
    agent = await make_agent(database)
    async with database.transaction() as session:
        node_type = {"name": "Thing", "description": "Any thing", "created_by": "test"}
        await session.insert(
            GraphNodeType, agent_id=agent.id, properties_schema={"type": "object"}, **node_type
        )
    return agent


async def _run_iteration(
    database: Database, agent: Agent, *, tonnes: int, year: int | None, page: str = ""
) -> UUID:
    """Runs an iteration whose page, without a date if `year` is None, claims that number of tonnes; returns its id."""
    started: StartedIteration = await make_iteration(
        database, await get_agent(database, agent.name)
    )
    scope = GraphScope(agent.owner_id, agent.id, started.iteration.id, started.observe.id)
    url, text = f"https://press.example/{page}{year}", f"Halden Cells bought {tonnes} tonnes."
    dated = {} if year is None else {"published_date": f"{year}-01-01"}
    async with database.transaction() as session:
        await store_pages(session, scope, {"results": [{"url": url, "content": text, **dated}]})
        await elements.add_node(
            session,
            scope,
            Validators(),
            type_name="Thing",
            name="Halden Cells",
            properties={"tonnes": tonnes},
            evidence=[EvidenceInput(url, text)],
        )
    await end_iteration(database, started)
    return started.iteration.id

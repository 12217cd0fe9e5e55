"""What the pages of the past are made of: what was said in a run, what it superseded, what all of it cost."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import delete, update

from services.api.queries import costs, iterations, transcripts
from services.api.queries.costs import CostQuery
from shared.database.engine import Database
from shared.database.tables import Agent, Call, GraphNodeType
from shared.graph import nodes
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.schemas.costs import CostTotals
from shared.workflow.iterations import StartedIteration
from tests.support.api.full import AGENT, SAID, end, full_agent, spoken
from tests.support.api.rows import row_of
from tests.support.making import make_agent, make_iteration

ROOT = "http://127.0.0.1"


async def test_each_result_stands_beside_its_call(database: Database) -> None:
    agent, run_id = await _spoken(database)
    async with database.transaction() as session:
        asked, answered = await transcripts.list_answers(session, agent.owner_id, run_id) or []
        assert await transcripts.list_answers(session, uuid4(), run_id) is None
    (use,) = asked.tool_uses
    assert (use.name, use.result, use.has_ended) == ("tavilySearch", {"results": []}, True)
    assert use.spent is not None
    assert (answered.text, answered.tool_uses, answered.spent.input_tokens) == (SAID, [], 7)


async def test_what_has_expired_is_told_and_the_rest_is_kept(
    database: Database, api: httpx.AsyncClient
) -> None:
    agent, run_id = await _spoken(database)
    async with database.transaction() as session:
        await session.execute(delete(Call).where(Call.agent_id == agent.id))
    async with database.transaction() as session:
        asked, answered = await transcripts.list_answers(session, agent.owner_id, run_id) or []
    assert not asked.is_kept
    assert not answered.is_kept
    assert [(each.name, each.result) for each in asked.tool_uses] == [
        ("tavilySearch", None),
        ("queryGraph", {"nodes": []}),
    ]
    page = await api.get(f"{ROOT}/agents/{agent.id}/iterations/1/runs/{run_id}")
    assert page.text.count("What the model said is no longer kept.") == 2
    assert "It is no longer kept." in page.text


async def test_an_outline_tells_what_each_run_cost(database: Database) -> None:
    agent, run_id = await _spoken(database)
    async with database.transaction() as session:
        found = await iterations.find_outline(session, agent.owner_id, agent.id, 1)
        assert await iterations.find_outline(session, uuid4(), agent.id, 1) is None
    assert found is not None
    (run,) = found.runs
    assert (run.id, run.event_count, run.spent.calls, run.spent.input_tokens) == (run_id, 4, 3, 14)
    # Answered, but the server told of no price: two calls of the model.
    assert (run.spent.unpriced, found.sums.spent.unpriced) == (2, 2)


@pytest.mark.parametrize("by", ["day", "phase", "model"])
async def test_cost_tables_add_up_to_what_costs_tells(database: Database, by: Any) -> None:
    agent, _ = await _spoken(database)
    async with database.transaction() as session:
        await session.execute(
            update(Call).where(Call.model.is_not(None)).values(cost_usd="0.00000123", attempts=1)
        )
    async with database.transaction() as session:
        tables = await costs.owner_cost_tables(session, agent.owner_id, CostQuery())
        told = await costs.owner_costs(session, agent.owner_id, CostQuery(by=by), is_operator=False)
        others = await costs.owner_cost_tables(session, uuid4(), CostQuery())
    assert _sums(tables.totals) == _sums(told.totals)
    rows = {row.key: _sums(row) for row in tables.by[by] if row.calls}
    assert rows == {group.key: _sums(group) for group in told.groups}
    assert len(tables.by["day"]) == costs.USUAL_DAYS
    assert {row.key: row.calls for row in tables.by["kind"]} == {"llm": 2, "search": 1}
    assert tables.agent_names == {str(agent.id): agent.name}
    assert (others.totals.calls, others.by["agent"]) == (0, [])


async def test_what_a_later_page_tells_otherwise_supersedes(database: Database) -> None:
    agent = await make_agent(database)
    async with database.transaction() as session:
        thing = {"name": "Thing", "description": "Any thing", "created_by": "test"}
        session.add(GraphNodeType(agent_id=agent.id, properties_schema={"type": "object"}, **thing))
    first = await _visit(database, agent, tonnes=5, year=2024)
    again = await _visit(database, agent, tonnes=7, year=2025)
    async with database.transaction() as session:
        of = session, agent.owner_id, agent.id
        assert await iterations.list_superseded(*of, first, most=9) == []
        (found,) = await iterations.list_superseded(*of, again, most=9)
    assert (found.kind, found.name, found.property) == ("node", "Halden Cells", "tonnes")
    assert (found.before, found.after) == (5, 7)


@pytest.mark.parametrize("page", ["iterations", "iterations/1", "compare", "costs"])
async def test_every_page_of_an_agent_with_everything(
    database: Database, api: httpx.AsyncClient, page: str
) -> None:
    await api.get("/agents")  # makes the owner
    full = await full_agent(database)
    told = await api.get(f"{ROOT}/agents/{full.agent_id}/{page}")
    assert told.status_code == 200, told.text
    assert AGENT in told.text
    assert (await api.get(f"{ROOT}/agents/{uuid4()}/{page}")).status_code == 404


async def _spoken(database: Database) -> tuple[Agent, UUID]:
    agent = await make_agent(database, name=AGENT)
    started = await make_iteration(database, agent)
    run_id = await spoken(database, started)
    return await row_of(database, AGENT), run_id


async def _visit(database: Database, agent: Agent, *, tonnes: int, year: int) -> UUID:
    """An iteration whose page tells how many tonnes there are; its id."""
    started: StartedIteration = await make_iteration(database, await row_of(database, agent.name))
    scope = GraphScope(agent.owner_id, agent.id, started.iteration.id, started.observe.id)
    url, text = f"https://press.example/{year}", f"Halden bought {tonnes} tonnes."
    page = {"url": url, "content": text, "published_date": f"{year}-01-01"}
    async with database.transaction() as session:
        await store_pages(session, scope, {"results": [page]})
        await nodes.add_node(
            session,
            scope,
            Validators(),
            type_name="Thing",
            name="Halden Cells",
            properties={"tonnes": tonnes},
            grounds=[EvidenceInput(url, text)],
        )
    await end(database, started)
    return started.iteration.id


def _sums(row: CostTotals) -> dict[str, Any]:
    return {name: getattr(row, name) for name in CostTotals.model_fields}

"""An Observer of 10,000 nodes: its request stays within its budget, and any node is within its reach."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from sqlalchemy import select, text

from services.observer.handler import look_up
from shared.database.engine import Database
from shared.database.tables import Agent, Iteration, Step
from shared.enums import IterationStatus, Phase, StepKind
from shared.graph import context
from shared.graph.prompt_format import byte_length
from shared.graph.scope import GraphScope
from shared.runtime.settings import Settings
from tests.support.factories import make_agent, make_node
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox

NODES = 10_000
TOKENS = 6_000
_FILL = """
insert into graph_nodes (id, agent_id, type, name, properties, seal)
select gen_random_uuid(), :agent, 'Metal', initcap(translate(md5(number::text), '0123456789', 'ghijklmnop')),
  jsonb_build_object('summary', 'The metal of number ' || number), ''
from generate_series(1, :nodes) as number
"""


_TYPES = """
with kinds as (
  insert into graph_node_types (agent_id, name, description, properties_schema, created_by)
  select :agent, name, 'A kind', '{}', 'test' from unnest(array['Company', 'Person', 'Place']) as name
)
insert into graph_edge_types (agent_id, name, description, source_types, target_types, created_by)
values (:agent, 'knows', 'who knows whom', '[]', '[]', 'test')
"""
_GROW = """
insert into graph_nodes (id, agent_id, type, name, properties, seal, created_at, updated_at)
select gen_random_uuid(), :agent, (array['Company', 'Person', 'Place'])[1 + number % 3], {name},
  jsonb_build_object('summary', 'What is known of number ' || number || '.', 'size', number), '',
  clock_timestamp(), clock_timestamp()
from generate_series(1 + :before, :nodes) as number
"""
_JOIN = """
insert into graph_edges (id, agent_id, type, source_id, target_id, properties, seal)
select gen_random_uuid(), :agent, 'knows', node.id, next.id, '{}', '' from (
  select id, lead(id) over (order by created_at) as next_id from graph_nodes where agent_id = :agent
) as node join graph_nodes as next on next.id = node.next_id
on conflict do nothing
"""


@pytest.fixture
async def agent(database: Database) -> Agent:
    made = await make_agent(database)
    await make_node(database, made)
    async with database.transaction() as session:
        await session.execute(text(_FILL), {"agent": made.id, "nodes": NODES})
    return made


def scope_of(agent: Agent) -> GraphScope:
    return GraphScope(agent.owner_id, agent.id)


async def names_of(database: Database, agent: Agent) -> list[str]:
    async with database.transaction() as session:
        rows = await session.execute(
            text("select name from graph_nodes where agent_id = :agent order by name"),
            {"agent": agent.id},
        )
        return [row.name for row in rows]


async def test_the_index_is_folded_and_within_the_budget(database: Database, agent: Agent) -> None:
    async with database.connection() as connection:
        survey = await context.build_survey(
            connection, scope_of(agent), StepKind.OBSERVE, token_budget=TOKENS
        )
    assert byte_length(survey) <= scope_of(agent).budget_bytes(TOKENS)
    assert context.FOLDED in survey
    letters = {name[0] for name in await names_of(database, agent)}
    line = survey.partition(context.FOLDED)[2].splitlines()[1]
    assert {part.split()[0] for part in line.removeprefix("- Metal: ").split("), ")} == letters


FILLS = {
    "names": "'Node ' || number",
    "long names": "'The quite long name of a company ' || md5(number::text)",
}


@pytest.mark.parametrize("name", FILLS.values(), ids=FILLS.keys())
@pytest.mark.parametrize("has_edges", [False, True])
async def test_a_larger_graph_is_not_shown_less(
    database: Database, name: str, *, has_edges: bool
) -> None:
    """The text uses its budget from 500 nodes on, and names more of a larger graph until it is used up."""
    agent = await make_agent(database)
    async with database.transaction() as session:
        await session.execute(text(_TYPES), {"agent": agent.id})
    shown, budget = 0, scope_of(agent).budget_bytes(TOKENS)
    for before, nodes in pairwise((0, 50, 100, 250, 350, 500, 1_000, 2_000, 5_000)):
        async with database.transaction() as session:
            params = {"agent": agent.id, "before": before, "nodes": nodes}
            await session.execute(text(_GROW.format(name=name)), params)
            if has_edges:
                await session.execute(text(_JOIN), params)
        async with database.connection() as connection:
            survey = await context.build_survey(
                connection, scope_of(agent), StepKind.OBSERVE, token_budget=TOKENS
            )
        if nodes >= 500:
            assert 0.85 <= byte_length(survey) / budget <= 1, nodes
        named = {each for each in await names_of(database, agent) if f'"{each}"' in survey}
        # Names of new nodes are longer, so that one or two lines fewer fit.
        assert len(named) >= shown * 0.98, nodes
        shown = max(shown, len(named))
    assert shown >= (500 if "Node" in name else 150)
    assert context.FOLDED in survey


async def test_a_small_graph_names_all_its_nodes(database: Database) -> None:
    small = await make_agent(database)
    await make_node(database, small)
    async with database.connection() as connection:
        survey = await context.build_survey(connection, scope_of(small), StepKind.OBSERVE)
    assert context.FOLDED not in survey
    assert '"Lithium"' in survey


async def test_any_node_is_found_by_its_name_and_by_its_group(
    database: Database, agent: Agent
) -> None:
    names = await names_of(database, agent)
    for name in Random(7).sample(names, 20):
        (line,) = await look_up(database, scope_of(agent), [name])
        assert f'"{name}"' in line
    few = [name for name in names if name.startswith("L")][:1]
    lines = await look_up(database, scope_of(agent), [f"Metal: {few[0][0]}"])
    assert f'"{few[0]}"' in lines[0]
    assert await look_up(database, scope_of(agent), ["Nothing of this kind"]) == [
        '- nothing is named "Nothing of this kind"'
    ]


async def test_the_observer_looks_up_what_it_needs_before_it_plans(
    sandbox_settings: Settings, sandbox: str, database: Database, agent: Agent
) -> None:
    name = (await names_of(database, agent))[1234]
    query = {"objective": "Price of it", "reasoning": "", "searchHints": ["x"], "answers": []}
    plans: list[dict[str, Any]] = [
        {"queries": [], "insights": [], "lookUp": [name]},
        {"queries": [query], "insights": [], "lookUp": []},
    ]
    control = Sandbox(sandbox)
    control.script({"phase": Phase.OBSERVER, "content": plans[0]})
    control.script({"phase": Phase.OBSERVER, "contains": f'"{name}"', "content": plans[1]})
    async with running_services(sandbox_settings):
        iteration = await ended_iteration(database, agent, 1)
    assert iteration.status == IterationStatus.COMPLETED
    async with database.transaction() as session:
        inputs = await session.scalars(
            select(Step.input)
            .join(Iteration, Iteration.id == Step.iteration_id)
            .where(Step.kind == StepKind.QUERY, Iteration.number == 1)
        )
        assert [each["objective"] for each in inputs] == ["Price of it"]

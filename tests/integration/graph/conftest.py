"""Fixtures of the graph's integration tests, on top of `database`."""

import pytest

from shared.database.engine import Database
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.duplicates import Duplicates


@pytest.fixture
async def agent_graph(database: Database) -> AgentGraph:
    return await make_agent_graph(database)


@pytest.fixture
async def stranger(database: Database) -> AgentGraph:
    """An agent of another user, in the same database."""
    return await make_agent_graph(database, "stranger")


@pytest.fixture
async def duplicates(agent_graph: AgentGraph) -> Duplicates:
    return await Duplicates(agent_graph).fill()

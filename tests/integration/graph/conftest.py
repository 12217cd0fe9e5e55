"""Fixtures of the graph's integration tests, on top of `database`."""

from collections.abc import AsyncIterator

import pytest

from shared.database.engine import Database
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.duplicates import Duplicates
from tests.support.graph.graph_with_evidence import EvidenceGraph, prove
from tests.support.graph.retraction_graph import RetractionGraph


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


@pytest.fixture
async def evidence_graph(agent_graph: AgentGraph) -> EvidenceGraph:
    return await prove(agent_graph)


@pytest.fixture
def retraction_graph(agent_graph: AgentGraph) -> RetractionGraph:
    return RetractionGraph(agent_graph)


@pytest.fixture
async def other_replica(database_url: str) -> AsyncIterator[Database]:
    """The database as used by another replica."""
    replica = Database(database_url, name="another")
    yield replica
    await replica.close()

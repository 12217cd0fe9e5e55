"""Fixtures of the graph's integration tests, on top of `database`."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from shared.database.engine import Database
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from tests.support.databases import StoredRows
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.graph.duplicates import Duplicates
from tests.support.graph.graph_with_evidence import EvidenceGraph, prove
from tests.support.graph.retraction_graph import RetractionGraph


@dataclass
class StoredGraphs:
    """What fixtures have made first, with its rows, from which those of all other tests are copied."""

    agent: tuple[GraphScope, StoredRows] | None = None
    evidence: tuple[EvidenceGraph, StoredRows] | None = None


@pytest.fixture(scope="session")
def stored_graphs() -> StoredGraphs:
    return StoredGraphs()


@pytest.fixture
async def agent_graph(
    database_url: str, database: Database, stored_graphs: StoredGraphs
) -> AgentGraph:
    if stored_graphs.agent is None:
        rows = StoredRows(database_url)
        made = await make_agent_graph(database)
        rows.store(database_url)
        stored_graphs.agent = made.scope, rows
        return made
    scope, rows = stored_graphs.agent
    rows.write(database_url)
    return AgentGraph(database, scope, Validators())


@pytest.fixture
async def stranger(agent_graph: AgentGraph) -> AgentGraph:
    """An agent of another user, in the same database."""
    return await make_agent_graph(agent_graph.database, "stranger")


@pytest.fixture
async def duplicates(agent_graph: AgentGraph) -> Duplicates:
    return await Duplicates(agent_graph).fill()


@pytest.fixture
async def evidence_graph(
    database_url: str, agent_graph: AgentGraph, stored_graphs: StoredGraphs
) -> EvidenceGraph:
    if stored_graphs.evidence is None:
        rows = StoredRows(database_url)
        made = await prove(agent_graph)
        rows.store(database_url)
        stored_graphs.evidence = copied(made, agent_graph), rows
        return made
    stored, rows = stored_graphs.evidence
    rows.write(database_url)
    return copied(stored, agent_graph)


def copied(graph: EvidenceGraph, agent_graph: AgentGraph) -> EvidenceGraph:
    return EvidenceGraph(agent_graph, {**graph.nodes}, {**graph.edges}, {**graph.sources})


@pytest.fixture
def retraction_graph(agent_graph: AgentGraph) -> RetractionGraph:
    return RetractionGraph(agent_graph)


@pytest.fixture
async def other_replica(database_url: str) -> AsyncIterator[Database]:
    """The database as used by another replica."""
    replica = Database(database_url, name="another")
    yield replica
    await replica.close()

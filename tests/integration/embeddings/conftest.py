"""Two agents of two users, each with a claimed step, where embeddings are configured."""

import pytest

from shared.database.engine import Database
from shared.runtime.settings import Settings
from tests.support.embeddings.embedding_case import EmbeddingCase
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.sandbox_control import Sandbox


@pytest.fixture
async def agent_graph(database: Database) -> AgentGraph:
    return await make_agent_graph(database)


@pytest.fixture
async def embedding_case(
    agent_graph: AgentGraph, sandbox_control: Sandbox, sandbox_settings: Settings
) -> EmbeddingCase:
    return await EmbeddingCase.of(agent_graph, sandbox_control, sandbox_settings)


@pytest.fixture
async def stranger(
    database: Database, sandbox_control: Sandbox, sandbox_settings: Settings
) -> EmbeddingCase:
    other = await make_agent_graph(database, "stranger")
    return await EmbeddingCase.of(other, sandbox_control, sandbox_settings)

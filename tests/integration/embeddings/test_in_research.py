"""Vectors within a researcher's step."""

import pytest

from services.researcher.handler import Research
from shared.database.tables import Step
from shared.runtime.providers import create_search_client, embedding_search_settings
from shared.workflow.iterations import StepRow
from tests.support.embeddings.embedding_case import QUESTION, EmbeddingCase, fill
from tests.support.sandbox_control import Sandbox
from tests.support.table_rows import change


async def test_an_unavailable_embedding_server_is_called_once_a_phase(
    embedding_case: EmbeddingCase, sandbox_control: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = []
    monkeypatch.setattr("shared.runtime.providers._log_embedding_error", errors.append)
    await fill(embedding_case.agent_graph)
    sandbox_control.faults({"kind": "status", "status": 500, "path": "/embeddings", "always": True})
    sandbox_control.script(
        {
            "phase": "knowledge_acquisition",
            "tool_calls": [{"name": "tavilySearch", "arguments": {"query": "Halden batteries"}}],
        },
        {"phase": "knowledge_acquisition", "content": "# Nothing new"},
        {
            "phase": "graph_construction",
            "tool_calls": [{"name": "queryGraph", "arguments": {"text": QUESTION}}],
        },
        {"phase": "graph_construction", "content": "Nothing to write."},
    )
    query = {"objective": "Anything", "reasoning": "", "search_hints": []}
    async with embedding_case.agent_graph.database.transaction() as session:
        step = await session.get_one(Step, embedding_case.lease.step_id)
        step = await change(session, step, input=query, index=0)
        row = StepRow(step.id, step.iteration_id, step.agent_id, step.kind, 0, query, step.status)
    research = Research(
        embedding_case.model,
        create_search_client(embedding_case.settings, embedding_case.agent_graph.database),
        8_000,
        embedding_search=embedding_search_settings(embedding_case.settings),
    )
    await research(embedding_case.lease, row)
    assert len(errors) == 1

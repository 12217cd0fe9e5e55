"""Vectors within a researcher's step."""

import pytest

from services.researcher.handler import Research
from shared.database.tables import Step
from shared.runtime.providers import create_search_client, embedding_search_settings
from tests.support.embeddings.seeker import QUESTION, Seeker, fill
from tests.support.sandbox_control import Sandbox


async def test_an_unavailable_embedding_server_is_called_once_a_phase(
    seeker: Seeker, sandbox_control: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = []
    monkeypatch.setattr("shared.runtime.providers._tell_unembedded", errors.append)
    await fill(seeker.world)
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
    async with seeker.world.database.transaction() as session:
        step = await session.get_one(Step, seeker.lease.step_id)
        step.input, step.index = query, 0
    research = Research(
        seeker.model,
        create_search_client(seeker.settings),
        8_000,
        embedding_search=embedding_search_settings(seeker.settings),
    )
    await research(seeker.lease, step)
    assert len(errors) == 1

"""Vectors in the midst of a researcher's step."""

import pytest

from services.researcher.handler import Research
from shared.database.tables import Step
from shared.runtime.providers import create_search_client, embedding_search_settings
from tests.support.embeddings.seeker import QUESTION, Seeker, fill
from tests.support.levers import Sandbox


async def test_a_server_that_is_away_is_asked_once_in_a_phase(
    seeker: Seeker, levers: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Exception] = []
    monkeypatch.setattr("shared.runtime.providers._tell_unembedded", told.append)
    await fill(seeker.world)
    levers.faults({"kind": "status", "status": 500, "path": "/embeddings", "always": True})
    levers.script(
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
    assert len(told) == 1
